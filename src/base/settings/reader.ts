/** Reads the settings of a table from an environment. An empty variable counts as unset. Knows no setting. */
import { parseChoice, parseInteger } from './values.js';

/** The least and the greatest of a whole number, the words of a choice, or what the values are, in Markdown. */
type Range = readonly [minimum: number, maximum: number] | readonly string[] | string;

/** `--help` and the tables of docs/ show all of it. Texts are Markdown, and name pages by paths such as docs/limits.md. */
export interface Setting {
  /** Null if there is none, or if it depends on other settings. */
  readonly fallback: string | null;
  /** What holds without a value where there is no `fallback`; the setting is required if both are missing. */
  readonly unset?: string;
  readonly range: Range;
  readonly meaning: string;
}

export type Settings = Readonly<Record<string, Setting>>;
export type Environment = Readonly<Record<string, string | undefined>>;

type NameIn<Table extends Settings> = keyof Table & string;
type WithDefault<Table extends Settings> = {
  [Name in NameIn<Table>]: Table[Name]['fallback'] extends string ? Name : never;
}[NameIn<Table>];
type Counted<Table extends Settings> = {
  [Name in WithDefault<Table>]: Table[Name]['range'] extends readonly [number, number] ? Name : never;
}[WithDefault<Table>];

/** Each function throws a ConfigError that names the setting. */
export interface SettingsReader<Name extends string, Defaulted extends Name, Count extends Defaulted> {
  readonly given: (name: Name) => string | undefined;
  /** The given value, or the default. */
  readonly text: (name: Defaulted) => string;
  readonly parsed: <T>(name: Defaulted, parse: (name: string, value: string) => T) => T;
  readonly count: (name: Count) => number;
  readonly choice: <T extends string>(name: Defaulted, choices: readonly T[]) => T;
  /** Reads a setting that is on or off. */
  readonly isOn: (name: Defaulted) => boolean;
}

export type ReaderOf<Table extends Settings> = SettingsReader<NameIn<Table>, WithDefault<Table>, Counted<Table>>;

export const ON_OFF = ['on', 'off'] as const;

export function settingsReader<Table extends Settings>(table: Table, env: Environment): ReaderOf<Table> {
  type Name = WithDefault<Table>;
  const given = (name: NameIn<Table>): string | undefined => env[name] || undefined;
  const text = (name: Name): string => given(name) ?? (table[name]?.fallback as string);
  const choice = <T extends string>(name: Name, choices: readonly T[]): T => parseChoice(name, text(name), choices);
  return {
    given,
    text,
    parsed: (name, parse) => parse(name, text(name)),
    count: (name) => {
      const [minimum, maximum] = (table[name] as Setting).range as readonly [number, number];
      return parseInteger(name, text(name), minimum, maximum);
    },
    choice,
    isOn: (name) => choice(name, ON_OFF) === 'on',
  };
}

/** As Markdown. */
export function describeRange(range: Range): string {
  if (typeof range === 'string') return range;
  const [minimum, maximum] = range;
  return typeof minimum === 'number' ? `${minimum} to ${maximum}` : range.map((word) => `\`${word}\``).join(', ');
}
