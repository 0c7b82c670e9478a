/** Programs of this machine, and for those that are missing what to install. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The program's path, or why there is none and what to install. */
export type Peer = { program: string } | { missing: string };

export function isMissing(peer: Peer): peer is { missing: string } {
  return 'missing' in peer;
}

/** Debian's packages by program. */
const PACKAGES: Readonly<Record<string, string>> = {
  'g++': 'g++',
  protoc: 'protobuf-compiler',
  grpc_cpp_plugin: 'protobuf-compiler-grpc',
  'pkg-config': 'pkg-config',
  fio: 'fio',
  thin_delta: 'thin-provisioning-tools',
  xfs_io: 'xfsprogs',
  'mkfs.xfs': 'xfsprogs',
  'mkfs.btrfs': 'btrfs-progs',
  'qemu-img': 'qemu-utils',
  'qemu-nbd': 'qemu-utils',
  nbdkit: 'nbdkit',
  nbdcopy: 'libnbd-bin',
  losetup: 'mount',
  socat: 'socat',
};

/** A program of the machine, also in /usr/sbin and /sbin. */
export function findProgram(name: string): Peer {
  const directories = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`.split(delimiter);
  const found = directories.map((each) => join(each, name)).find((path) => existsSync(path));
  if (found !== undefined) return { program: found };
  const from = PACKAGES[name];
  const remedy = from === undefined ? 'install it' : `install the package ${from}`;
  return { missing: `${name} is not installed: ${remedy}` };
}
