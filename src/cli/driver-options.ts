/** Options of `conformance` and `bench` for drivers of others: where they listen and what they want to be told. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rmdir, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { errorCode, insteadOf, messageOf } from '../base/errors.js';
import { socketPathOf } from './endpoint.js';
import { addPair } from './option-values.js';
import { parsePath } from './paths.js';

type StringMap = Readonly<Record<string, string>>;

export interface DriverOptions {
  endpoint?: string;
  controllerEndpoint?: string;
  parameters: StringMap;
  snapshotParameters: StringMap;
  secrets: Readonly<Record<string, StringMap>>;
  workDirectory?: string;
}

const KUBELET_DIRECTORY = '/var/lib/kubelet';
/** Where the kubelet publishes volumes: drivers mount this part of its directory, some of them no other. */
const PUBLISHED = 'plugins/kubernetes.io/csi';

export function addDriverOptions(command: Command): Command {
  return command
    .option(
      '--controller-endpoint <endpoint>',
      'socket of the Controller, GroupController and SnapshotMetadata services (default: --endpoint)',
    )
    .option('--parameters <key=value>', 'a StorageClass parameter; repeatable', addPair, {})
    .option('--snapshot-parameters <key=value>', 'a CreateSnapshot parameter; repeatable', addPair, {})
    .option('--secrets <file>', 'JSON file: secrets by RPC name, "*" for all others', readSecrets, {})
    .option(
      '--work-directory <directory>',
      'where volumes are staged and published (default: below /var/lib/kubelet if that exists, else TMPDIR)',
      parsePath,
    );
}

/** The socket of the Controller service; undefined if it is not named. */
export function controllerSocketPathOf(command: Command, { controllerEndpoint }: DriverOptions): string | undefined {
  return controllerEndpoint === undefined ? undefined : socketPathOf(command, controllerEndpoint);
}

/**
 * A driver in a container sees what is mounted where the kubelet publishes volumes, and often nothing else.
 *
 * @param name of the directory of the command
 */
export function defaultWorkDirectory(name: string): string {
  return join(existsSync(KUBELET_DIRECTORY) ? join(KUBELET_DIRECTORY, PUBLISHED) : tmpdir(), name);
}

/**
 * Makes the directory and those above it that are missing. Resolves to what removes those again that it has made, as far as
 * they are empty. Node's own recursive mkdir() never ends where the kernel lets nobody make a directory, as below /proc.
 */
export async function makeWorkDirectory(path: string): Promise<() => Promise<void>> {
  const made: string[] = [];
  const remove = async (): Promise<void> => {
    for (const directory of made.toReversed()) await rmdir(directory).catch(() => undefined);
  };
  const names = path.split('/').slice(1);
  try {
    for (const end of names.keys()) {
      const directory = `/${names.slice(0, end + 1).join('/')}`;
      const isNew = await mkdir(directory).then(() => true, insteadOf(['EEXIST'], false));
      if (isNew) made.push(directory);
    }
    await stat(`${path}/.`);
    return remove;
  } catch (thrown) {
    await remove();
    const reason = errorCode(thrown) ?? messageOf(thrown);
    throw new Error(`cannot make the work directory ${path} (${reason}): give another --work-directory`);
  }
}

function readSecrets(path: string): Record<string, StringMap> {
  const file = parsePath(path);
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new InvalidArgumentError(`${file}: ${(error as Error).message}`);
  }
  const isMap = (value: unknown): value is object =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  const isSecrets = (value: unknown): boolean =>
    isMap(value) && Object.values(value).every((secret) => typeof secret === 'string');
  if (!isMap(content) || !Object.values(content).every(isSecrets)) {
    throw new InvalidArgumentError('It must be like {"CreateVolume": {"key": "value"}}.');
  }
  return content as Record<string, StringMap>;
}
