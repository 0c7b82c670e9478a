/**
 * `blockdelta completion bash|zsh`: prints a script that completes commands, options and their fixed values.
 *
 * The script is made from the definitions of the commands, so it knows what --help knows.
 */
import { Argument, type Command } from 'commander';
import { print } from './output.js';

export const SHELLS = ['bash', 'zsh'] as const;
export type Shell = (typeof SHELLS)[number];

interface OptionWords {
  flags: string[];
  description: string;
  takesValue: boolean;
  /** The only values that the option takes; null if it takes any value. */
  choices: readonly string[] | null;
  takesPath: boolean;
}

interface CommandWords {
  /** Names from the program to the command, such as ['catalogue', 'confirm']. */
  path: string[];
  description: string;
  subcommands: string[];
  options: OptionWords[];
  /** The fixed values of the command's first argument. */
  values: readonly string[];
}

/** @param root the program with all of its commands */
export function completionScript(root: Command, shell: Shell): string {
  const commands = wordsOf(root, []);
  return shell === 'bash' ? bashScript(root.name(), commands) : zshScript(root.name(), commands);
}

/** @param loadAll adds all other commands to the program */
export function completionCommand(loadAll: (program: Command) => Promise<void>) {
  return (program: Command): void => {
    program
      .command('completion')
      .description('print a script for the completion of commands and options in a shell')
      .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
      .addHelpText('after', HELP)
      .action(async (shell: Shell) => {
        await loadAll(program);
        await print(completionScript(program, shell));
      });
  };
}

const HELP = `
For one bash:      source <(blockdelta completion bash)
For all of bash:   blockdelta completion bash > /etc/bash_completion.d/blockdelta
For all of zsh:    blockdelta completion zsh > /usr/local/share/zsh/site-functions/_blockdelta`;

function wordsOf(command: Command, path: string[]): CommandWords[] {
  const help = command.createHelp();
  const subcommands = help.visibleCommands(command).filter((each) => each.name() !== 'help');
  const own: CommandWords = {
    path,
    description: command.description(),
    subcommands: subcommands.map((each) => each.name()),
    options: help.visibleOptions(command).map((option) => ({
      flags: [option.short, option.long].filter((flag) => flag !== undefined),
      description: option.description,
      takesValue: option.required || option.optional,
      choices: option.argChoices ?? null,
      takesPath: /<(?:file|directory|device|path|device\|file)/i.test(option.flags),
    })),
    values: command.registeredArguments[0]?.argChoices ?? [],
  };
  return [own, ...subcommands.flatMap((each) => wordsOf(each, [...path, each.name()]))];
}

function bashScript(program: string, commands: readonly CommandWords[]): string {
  const cases = commands.map(({ path, subcommands, options, values }) => {
    const words = [...subcommands, ...values, ...options.flatMap(({ flags }) => flags)];
    const valued = options.filter(({ takesValue }) => takesValue);
    const withChoices = valued.filter(({ choices }) => choices !== null);
    const withPaths = valued.filter(({ choices, takesPath }) => choices === null && takesPath);
    const others = valued.filter(({ choices, takesPath }) => choices === null && !takesPath);
    const lines = [
      ...withChoices.map(
        ({ flags, choices }) =>
          `        ${flags.join('|')}) COMPREPLY=($(compgen -W '${choices?.join(' ')}' -- "$current")); return ;;`,
      ),
      ...flagCase(withPaths, 'COMPREPLY=($(compgen -f -- "$current")); return'),
      ...flagCase(others, 'return'),
    ];
    const previous = lines.length === 0 ? '' : `      case "$previous" in\n${lines.join('\n')}\n      esac\n`;
    return `    '${path.join(' ')}')\n${previous}      words='${words.join(' ')}' ;;`;
  });
  const names = commands.filter(({ path }) => path.length > 0).map(({ path }) => `'${path.join(' ')}'`);
  return `# Completion of ${program} for bash, printed by: ${program} completion bash
_${program}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}"
  local path='' word words='' candidate
  local -a known=(${names.join(' ')})
  COMPREPLY=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    for candidate in "\${known[@]}"; do
      [[ "$candidate" == "\${path:+$path }$word" ]] && { path="$candidate"; break; }
    done
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o filenames -F _${program} ${program}
`;
}

function flagCase(options: readonly OptionWords[], action: string): string[] {
  if (options.length === 0) return [];
  return [`        ${options.flatMap(({ flags }) => flags).join('|')}) ${action} ;;`];
}

function zshScript(program: string, commands: readonly CommandWords[]): string {
  const functions = commands.map(({ path, subcommands, options, values }) => {
    const name = ['', program, ...path].join('_').replaceAll('-', '_');
    const specs = options.map((option) => `    ${zshOption(option)}`);
    const children = commands.filter(
      (each) => each.path.length === path.length + 1 && each.path.slice(0, -1).join(' ') === path.join(' '),
    );
    const rest =
      subcommands.length === 0
        ? [values.length > 0 ? `    '1:value:(${values.join(' ')})'` : `    '*:argument:_files'`]
        : ["    '1:command:->command'", "    '*::argument:->arguments'"];
    const describe = children.map(
      ({ path: full, description }) => `        ${quoted(`${full.at(-1)}:${plain(description)}`)}`,
    );
    const dispatch = children.map(
      ({ path: full }) => `        ${full.at(-1)}) ${['', program, ...full].join('_').replaceAll('-', '_')} ;;`,
    );
    const states =
      subcommands.length === 0
        ? ''
        : `  case $state in
    command)
      local -a commands=(
${describe.join('\n')}
      )
      _describe -t commands command commands ;;
    arguments)
      case $line[1] in
${dispatch.join('\n')}
      esac ;;
  esac
`;
    return `${name}() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C \\
${[...specs, ...rest].join(' \\\n')}
${states}}
`;
  });
  return `#compdef ${program}
# Completion of ${program} for zsh, printed by: ${program} completion zsh
${functions.join('\n')}
if [ "$funcstack[1]" = "_${program}" ]; then
  _${program} "$@"
else
  compdef _${program} ${program}
fi
`;
}

function zshOption({ flags, description, takesValue, choices, takesPath }: OptionWords): string {
  const values = choices === null ? (takesPath ? '_files' : ' ') : `(${choices.join(' ')})`;
  const value = takesValue ? `:value:${values}` : '';
  const text = `[${plain(description)}]${value}`;
  const [only] = flags;
  if (flags.length === 1) return quoted(`${only}${text}`);
  return `'(${flags.join(' ')})'{${flags.join(',')}}${quoted(text)}`;
}

/** The text without the characters that have a meaning to _arguments and _describe. */
const plain = (text: string): string => text.replace(/[[\]]/g, '').replace(/:/g, ' -');

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
