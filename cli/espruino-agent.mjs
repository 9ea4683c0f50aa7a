#!/usr/bin/env node
// The sources are TypeScript, and stay so: tsx turns them into JavaScript as they are loaded.
import { register } from "tsx/esm/api";

register();
await import("./program.ts");
