#!/usr/bin/env node
// Runs the binary of the package for this architecture, with this process's arguments, descriptors
// and signals.
"use strict";

const { spawn } = require("node:child_process");

const name = `tare-perf-linux-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/tare`);
} catch {
  console.error(`tare: the package ${name} isn't installed: npm leaves it out with --omit=optional`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends its signals to both processes; the child decides what they mean.
for (const signal of ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]) {
  process.on(signal, () => {
    if (signal !== "SIGINT" && signal !== "SIGQUIT") child.kill(signal);
  });
}
child.on("error", (error) => {
  console.error(`tare: can't run ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (status, signal) => {
  if (signal === null) process.exit(status);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
