/** The completion scripts in real shells: a line, a press of the tab key, and what the line has become. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { PROGRAM } from '../../support/program.js';
import { temporaryDirectory } from '../../support/temporary.js';

const has = (shell: string): boolean => spawnSync(shell, ['--version']).status === 0;
const skipOf = (shell: string) => (has(shell) ? false : `${shell} is not installed`);

/** What is typed, and the words that the line then has; several where bash lists them. */
const CASES: readonly [string, string[]][] = [
  ['do', ['doctor']],
  ['sn', ['snapshots']],
  ['catalogue conf', ['confirm']],
  ['completion z', ['zsh']],
  ['allocated --form', ['--format']],
  ['delta --format nd', ['ndjson']],
  ['gc --ap', ['--apply']],
  ['conformance --acc', ['--access']],
];

const directory = temporaryDirectory();

before(() => {
  for (const shell of ['bash', 'zsh']) {
    const script = execFileSync(process.execPath, [PROGRAM, 'completion', shell]);
    writeFileSync(join(directory, shell), script);
  }
});

function completeInBash(line: string): string[] {
  const program = `
    source "$1"; shift
    COMP_WORDS=(blockdelta "$@"); COMP_CWORD=$#
    _blockdelta
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const words = line.split(' ');
  const args = ['--norc', '-c', program, 'bash', join(directory, 'bash'), ...words];
  return execFileSync('bash', args, { encoding: 'utf8' }).trim().split('\n');
}

/**
 * Completes each line in an interactive zsh on a terminal, which prints READY whenever its line editor waits
 * for keys: nothing is typed before. After the tab, the line is turned into one that prints itself.
 */
function completeInZsh(lines: string[]): string[] {
  const program = `
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "PS1=; autoload -Uz compinit; compinit -u -D; source $1
      zle-line-init() print -r -- REA''DY; zle -N zle-line-init"
    for line in "\${@:2}"; do
      zpty -r shell out '*READY*'
      zpty -n -w shell "blockdelta $line"$'\\t\\C-a'"print -r -- GO''T "$'\\n'
      zpty -r shell out '*GOT *'$'\\n'
      print -r -- "$out"
    done
    zpty -d shell`;
  const args = ['-f', '-c', program, 'zsh', join(directory, 'zsh'), ...lines];
  const env = { ...process.env, TERM: 'dumb' };
  const output = execFileSync('zsh', args, { encoding: 'utf8', env, timeout: 60_000 });
  return [...output.matchAll(/GOT blockdelta (.*?)\s*$/gm)].map(([, words]) => words ?? '');
}

test('bash completes commands, subcommands, options and values', { skip: skipOf('bash') }, () => {
  for (const [line, words] of CASES) assert.deepEqual(completeInBash(line), words, line);
  const help = execFileSync(process.execPath, [PROGRAM, '--help'], { encoding: 'utf8' });
  const names = [...help.matchAll(/^ {2}([a-z][a-z-]+)(?: |$)/gm)].map(([, name]) => name ?? '');
  assert.ok(names.includes('serve') && names.includes('conformance'));
  const all = completeInBash('');
  const zsh = readFileSync(join(directory, 'zsh'), 'utf8');
  for (const name of names.filter((each) => each !== 'help')) {
    assert.ok(all.includes(name) && zsh.includes(`'${name}:`), name);
  }
});

test('zsh completes commands, subcommands, options and values', { skip: skipOf('zsh') }, () => {
  const completed = CASES.map(([line, words]) => [...line.split(' ').slice(0, -1), ...words].join(' '));
  assert.deepEqual(completeInZsh(CASES.map(([line]) => line)), completed);
});
