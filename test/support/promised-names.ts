/**
 * What programs and operators rely on by name, as texts that can be compared: settings, metrics, exit codes, commands,
 * parameters, private calls and the steps of schemas. docs/compatibility.md says what may change of it.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type protobuf from 'protobufjs';
import { NODE_PACKAGE, nodeProto } from '../../src/base/csi/node-proto.js';
import type { Environment, Settings } from '../../src/base/settings/reader.js';
import { ExitCode } from '../../src/cli/exit-codes.js';
import { loadProgram } from '../../src/cli/program.js';
import { LEDGER_STEPS } from '../../src/driver/backends/thin/ledger/ledger-schema.js';
import { CATALOGUE_STEPS } from '../../src/driver/catalogue/schema.js';
import { parseConfig, SETTINGS } from '../../src/driver/config/config.js';
import { PluginMetrics } from '../../src/driver/metrics/plugin-metrics.js';
import { MUTABLE_PARAMETERS } from '../../src/driver/volumes/device-settings.js';
import { VOLUME_PARAMETERS } from '../../src/driver/volumes/volume-parameters.js';
import { RouterMetrics } from '../../src/router/router-metrics.js';
import { ROUTE_SETTINGS } from '../../src/router/settings.js';
import type { Metrics } from '../../src/server/metrics/metrics.js';
import { BackupMetrics } from '../../src/tools/backup/backup-metrics.js';
import { checkoutText } from './checkout-text.js';

/** By kind, then by name: what the name stands for. */
export type Promises = Readonly<Record<string, Readonly<Record<string, string>>>>;

export async function promises(): Promise<Promises> {
  return {
    'settings of serve': defaultsOf(SETTINGS),
    'settings of route': defaultsOf(ROUTE_SETTINGS),
    'metrics of serve': metricsOf(new PluginMetrics({ showsVolumes: true })),
    'metrics of route': metricsOf(new RouterMetrics()),
    'metrics of backup': metricsOf(new BackupMetrics()),
    'exit codes': Object.fromEntries(Object.entries(ExitCode).map(([name, code]) => [name, `${code}`])),
    'commands, arguments and options': Object.fromEntries(wordsOf(await loadProgram(null), [])),
    'parameters of a StorageClass': Object.fromEntries(VOLUME_PARAMETERS.map((name) => [name, ''])),
    'mutable parameters': Object.fromEntries(
      MUTABLE_PARAMETERS.map(({ name, type, default: fallback }) => [name, `${type}; default ${fallback}`]),
    ),
    'calls of a router to a node': privateCalls(),
    'steps of schemas': {
      ...digestsOf('catalogue', CATALOGUE_STEPS),
      ...digestsOf('ledger of a thin pool', LEDGER_STEPS),
    },
  };
}

/** The settings in a file of lines as an EnvironmentFile of systemd has. */
export function settingsIn(file: string): Environment {
  const lines = readFileSync(file, 'utf8').split('\n');
  return Object.fromEntries(
    lines
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

/** The values that a node takes from these settings, whatever the names of the fields that hold them. */
export function settingsMean(env: Environment): string[] {
  const values: string[] = [];
  const visit = (value: unknown): void => {
    if (typeof value === 'object' && value !== null) Object.values(value).forEach(visit);
    else values.push(String(value));
  };
  visit(parseConfig(env));
  return values.sort();
}

const defaultsOf = (settings: Settings): Record<string, string> =>
  Object.fromEntries(Object.entries(settings).map(([name, { fallback }]) => [name, fallback ?? 'no fixed default']));

function metricsOf({ registry }: Pick<Metrics, 'registry'>): Record<string, string> {
  const metrics = registry.getMetricsAsArray().map((metric) => {
    // prom-client's types lack what every metric has.
    const { name, labelNames } = metric as unknown as { name: string; labelNames: string[] };
    const type = metric.constructor.name.toLowerCase();
    return [name, [type, ...[...labelNames].sort()].join(' ')] as const;
  });
  return Object.fromEntries(metrics);
}

/** Each command, argument, option and value of an option that is one of a few. */
function wordsOf(command: Command, path: readonly string[]): [string, string][] {
  const own = path.length === 0 ? [] : [[path.join(' '), argumentsOf(command)] as [string, string]];
  const options = command.options
    .filter(({ long }) => long !== '--version')
    .flatMap(({ flags, long, mandatory, argChoices = [], defaultValue }): [string, string][] => {
      const name = [...path, long ?? flags].join(' ');
      const hasDefault = defaultValue !== undefined && defaultValue !== false && defaultValue !== '';
      const how = [
        withoutNames(flags),
        ...(mandatory ? ['required'] : []),
        ...(hasDefault ? [`default ${defaultValue}`] : []),
      ];
      return [[name, how.join('; ')], ...argChoices.map((each): [string, string] => [`${name} ${each}`, ''])];
    });
  const others = command.commands.flatMap((each) => wordsOf(each, [...path, each.name()]));
  return [...own, ...options, ...others];
}

function argumentsOf({ registeredArguments }: Command): string {
  return registeredArguments
    .map(({ required, variadic }) => `${required ? '<>' : '[]'}${variadic ? '...' : ''}`)
    .join(' ');
}

/** The names of values are for readers only. */
const withoutNames = (flags: string): string => flags.replace(/<[^>]*>/g, '<>').replace(/\[[^\]]*\]/g, '[]');

function privateCalls(): Record<string, string> {
  const { root } = nodeProto();
  const calls = root.lookup(NODE_PACKAGE) as protobuf.Namespace;
  const named = calls.nestedArray.flatMap((each): [string, string][] => {
    const { methods, fields } = each as Partial<protobuf.Service & protobuf.Type>;
    return [
      ...Object.values(methods ?? {}).map(({ name, requestType, responseType }) => [
        `${each.name}.${name}`,
        `${requestType} to ${responseType}`,
      ]),
      ...Object.values(fields ?? {}).map(({ name, id, type }) => [`${each.name}.${name}`, `${type} = ${id}`]),
    ] as [string, string][];
  });
  return Object.fromEntries(named);
}

const digestsOf = (label: string, steps: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    steps.map((step, index) => [`${label} ${index + 1}`, createHash('sha256').update(step).digest('hex')]),
  );

/** The changelog says whether the version of this package has been released. */
export function isReleased(version: string): boolean {
  const changelog = checkoutText('CHANGELOG.md');
  return !changelog.includes(`\n## ${version} (unreleased)\n`);
}
