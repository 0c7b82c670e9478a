#!/usr/bin/env node
/**
 * Writes compile_commands.json, which clangd, clang-tidy and editors read: how every C++ source of the
 * addon, its helper programs, the native tests, the fuzz targets and the benchmarks is compiled.
 *
 *   scripts/compile-commands.mjs
 */
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import path from 'node:path';

const root = path.dirname(import.meta.dirname);
process.chdir(root);

const output = (program, ...args) => execFileSync(program, args).toString().trim();

/** The directory of node_api.h: beside the node binary, or where node-gyp has downloaded it to. */
function nodeHeaders() {
  const beside = path.join(path.dirname(path.dirname(process.execPath)), 'include/node');
  const { node } = process.versions;
  return existsSync(beside) ? beside : path.join(homedir(), '.cache/node-gyp', node, 'include/node');
}

const command = output('make', '-s', '-f', 'scripts/native.mk', 'command').split(/\s+/);
const addonFlags = [
  `-I${createRequire(import.meta.url)('node-addon-api').include_dir}`,
  `-I${nodeHeaders()}`,
  '-DNAPI_VERSION=9',
  '-DNODE_ADDON_API_DISABLE_DEPRECATED',
  '-DNAPI_DISABLE_CPP_EXCEPTIONS',
  '-DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS',
];
const sources = output('git', 'ls-files', '--cached', '--others', '--exclude-standard', '*.cc').split('\n');
const isAddon = (file) => /(^native\/|_)addon\.cc$/.test(file) || file.startsWith('native/binding/');
const commands = sources.filter(existsSync).map((file) => ({
  directory: root,
  file,
  arguments: [...command, ...(isAddon(file) ? addonFlags : []), '-c', file],
}));
writeFileSync('compile_commands.json', `${JSON.stringify(commands, null, 2)}\n`);
console.log(`compile_commands.json: ${commands.length} sources`);
