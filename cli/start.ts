import { main } from "./main";
import { runProcess } from "./process";

await runProcess(main);
