import { runProgram } from "./main";
import { runProcess } from "./process";

await runProcess(runProgram);
