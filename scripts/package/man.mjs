/**
 * Writes the man pages, one for each command, from the same definitions as --help. Loads them, and runs nothing
 * else of the program.
 *
 *   node scripts/package/man.mjs DIRECTORY
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { loadSources } from '../load-sources.mjs';

/** @param {string} directory is made; what it holds is replaced */
export async function writeManPages(directory) {
  const { loadProgram } = await loadSources(`export { loadProgram } from './src/cli/program.js'`);
  const program = await loadProgram(null);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  for (const command of [program, ...descendants(program)]) {
    writeFileSync(join(directory, `${pageOf(command)}.1`), page(command, program.version()));
  }
}

const descendants = (command) => childrenOf(command).flatMap((each) => [each, ...descendants(each)]);

/** Without commander's own `help`. */
const childrenOf = (command) =>
  command.createHelp().visibleCommands(command).filter((each) => each.name() !== 'help');

/** Names from the program to the command. */
function pathOf(command) {
  return command.parent === null ? [command.name()] : [...pathOf(command.parent), command.name()];
}

/** `man blockdelta delta` looks for it under this name. */
const pageOf = (command) => pathOf(command).join('-');

function page(command, version) {
  const help = command.createHelp();
  const name = pageOf(command);
  const parts = [
    `.TH ${escaped(name.toUpperCase())} 1 "" "blockdelta ${version}" "blockdelta"`,
    ...section('NAME', [`${escaped(name)} \\- ${escaped(help.commandDescription(command))}`]),
    ...section('SYNOPSIS', [`\\fB${escaped(pathOf(command).join(' '))}\\fR ${escaped(command.usage())}`]),
    ...section('ARGUMENTS', help.visibleArguments(command).flatMap((argument) =>
      item(`\\fI${escaped(argument.name())}\\fR`, help.argumentDescription(argument)),
    )),
    ...section('OPTIONS', help.visibleOptions(command).flatMap((option) =>
      item(flagsOf(option), help.optionDescription(option)),
    )),
    ...groupsOf(command).flatMap(([heading, commands]) =>
      section(heading.replace(/:$/, ''), commands.flatMap((each) =>
        item(`\\fB${escaped(pageOf(each))}\\fR(1)`, help.subcommandDescription(each)),
      )),
    ),
    ...textBelow(command),
  ];
  const related = relatedTo(command).map((each) => `\\fB${escaped(pageOf(each))}\\fR(1)`);
  return `${[...parts, ...section('SEE ALSO', [related.join(', ')].filter(Boolean))].join('\n')}\n`;
}

/** The command above it and those of its group. */
function relatedTo(command) {
  if (command.parent === null) return [];
  const group = childrenOf(command.parent).filter((each) => each.helpGroup() === command.helpGroup());
  return [command.parent, ...group.filter((each) => each !== command)];
}

function groupsOf(command) {
  const groups = new Map();
  for (const each of childrenOf(command)) {
    const heading = each.helpGroup() || 'Commands:';
    groups.set(heading, [...(groups.get(heading) ?? []), each]);
  }
  return [...groups];
}

function flagsOf({ flags }) {
  return flags.replaceAll(/[^ ,]+/g, (word) => `\\f${word.startsWith('-') ? 'B' : 'I'}${escaped(word)}\\fR`);
}

/** What --help prints below the options: tables under a heading, such as exit codes, then text. */
function textBelow(command) {
  let all = '';
  command.configureOutput({ writeOut: (text) => { all += text; } });
  command.outputHelp();
  const blocks = all.slice(command.helpInformation().length).trim().split(/\n\n+/).filter(Boolean);
  const tables = blocks.filter((block) => TABLE.test(block));
  const others = blocks.filter((block) => !TABLE.test(block));
  return [...section('NOTES', others.flatMap(paragraph)), ...tables.flatMap(table)];
}

const TABLE = /^[A-Z][a-z ]+:\n {2}\S+ /;

function table(block) {
  const [heading, ...lines] = block.split('\n');
  const rows = lines.flatMap((line) => {
    const [, key, meaning] = /^ {2}(\S+) +(.*)$/.exec(line) ?? [];
    return key === undefined ? [escaped(line.trim())] : item(`\\fB${escaped(key)}\\fR`, meaning);
  });
  return section(heading.slice(0, -1), rows);
}

/** Lines that are set in columns or indented stay as they are. */
function paragraph(block) {
  let isFixed = false;
  const lines = block.split('\n').flatMap((line) => {
    const wasFixed = isFixed;
    isFixed = / {3}|^ /.test(line);
    const change = isFixed === wasFixed ? [] : [isFixed ? '.nf' : '.fi'];
    return [...change, escaped(line)];
  });
  return ['.PP', ...lines, ...(isFixed ? ['.fi'] : [])];
}

const section = (title, lines) => (lines.length === 0 ? [] : [`.SH "${escaped(title.toUpperCase())}"`, ...lines]);

const item = (term, text) => ['.TP', term, escaped(text)];

/** Text of which roff takes nothing for a request or an escape; hyphens can be copied into a shell. */
function escaped(text) {
  return text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll(/^(?=[.'])/gm, '\\&');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [directory] = process.argv.slice(2);
  if (directory === undefined) {
    console.error('usage: man.mjs DIRECTORY');
    process.exit(2);
  }
  await writeManPages(directory);
}
