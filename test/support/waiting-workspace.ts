/** A program that makes a workspace with a pool and a process that uses it, prints the directory, and waits to be ended. */
import { spawn } from 'node:child_process';
import { makePoolFileSystem, Workspace } from './workspace.js';

const workspace = new Workspace('waiting');
const cwd = makePoolFileSystem(workspace, 'xfs', 512);
spawn('sleep', ['600'], { cwd, env: { ...process.env, PLACE: workspace.directory } });
console.log(workspace.directory);
