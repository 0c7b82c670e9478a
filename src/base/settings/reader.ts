/** Reads the settings of a table from an environment. An empty variable counts as unset. Knows no setting. */
import { parseChoice, parseInteger } from './values.js';

export interface Setting {
  /** Null if there is none, or if it depends on other settings. */
  readonly fallback: string | null;
  readonly meaning: string;
}

export type Settings = Readonly<Record<string, Setting>>;
export type Environment = Readonly<Record<string, string | undefined>>;

type NameIn<Table extends Settings> = keyof Table & string;
type WithDefault<Table extends Settings> = {
  [Name in NameIn<Table>]: Table[Name]['fallback'] extends string ? Name : never;
}[NameIn<Table>];

/** Each function throws a ConfigError that names the setting. */
export interface SettingsReader<Name extends string, Defaulted extends Name> {
  readonly given: (name: Name) => string | undefined;
  /** The given value, or the default. */
  readonly text: (name: Defaulted) => string;
  readonly parsed: <T>(name: Defaulted, parse: (name: string, value: string) => T) => T;
  readonly count: (name: Defaulted, minimum: number, maximum: number) => number;
  readonly choice: <T extends string>(name: Defaulted, choices: readonly T[]) => T;
  /** Reads a setting that is on or off. */
  readonly isOn: (name: Defaulted) => boolean;
}

export type ReaderOf<Table extends Settings> = SettingsReader<NameIn<Table>, WithDefault<Table>>;

const ON_OFF = ['on', 'off'] as const;

export function settingsReader<Table extends Settings>(table: Table, env: Environment): ReaderOf<Table> {
  type Name = WithDefault<Table>;
  const given = (name: NameIn<Table>): string | undefined => env[name] || undefined;
  const text = (name: Name): string => given(name) ?? (table[name]?.fallback as string);
  const choice = <T extends string>(name: Name, choices: readonly T[]): T => parseChoice(name, text(name), choices);
  return {
    given,
    text,
    parsed: (name, parse) => parse(name, text(name)),
    count: (name, minimum, maximum) => parseInteger(name, text(name), minimum, maximum),
    choice,
    isOn: (name) => choice(name, ON_OFF) === 'on',
  };
}
