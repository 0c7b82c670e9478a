/**
 * blockdelta's main job, done as a backup tool would do it, against a real plugin over its socket:
 * fill a volume, snapshot it, change it, snapshot it again, ask what changed, and prove the answer. Everything that the job
 * makes is in one directory, and is undone.
 *
 * Exits 0 only if all that it compares is the same in every byte.
 */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { removePlace } from './quickstart-job/clean-up.mjs';
import * as oneNode from './quickstart-job/one-node.mjs';
import * as twoNodes from './quickstart-job/two-nodes.mjs';
import { detail, headline, heedSignals, isInterrupted, throwIfInterrupted } from './quickstart-job/steps.mjs';

const HELP = `scripts/quickstart [--backend reflink|thin | --nodes 2] [--small] [--keep] [--program PATH]

  Starts blockdelta on a pool of its own in a temporary directory, makes a 1 GiB volume, fills,
  snapshots and changes it, streams the changed-block list, rebuilds the second snapshot from it,
  compares the images byte by byte, makes and restores incremental backups by blockdelta's own
  commands, and cleans up.

  --backend thin   on a thin pool instead of cloned files; in a virtual machine (x86-64 Debian) where
                   the kernel has no device-mapper
  --nodes 2        instead: two nodes and a router, in network namespaces of this machine; makes volumes on
                   node b from snapshots of a volume on node a, says how many bytes travelled each time, and
                   compares digests; then node a is lost, and its volume comes back on node b
  --small          a volume of 128 MiB, for slow machines
  --keep           leave everything running afterwards and print what to try next
  --program PATH   the plugin to run, such as node_modules/blockdelta/dist/main.js of an installed one;
                   otherwise this checkout's
`;
const MIB = 1024 ** 2;
const NORMAL = { volumeBytes: 1024 * MIB, tree: { bytes: 300 * MIB, files: 1_000_000 } };
const SMALL = { volumeBytes: 128 * MIB, tree: { bytes: 16 * MIB, files: 400 } };
const BACKENDS = ['reflink', 'thin'];
const repository = resolve(dirname(fileURLToPath(import.meta.url)), '..');

async function main() {
  const { values } = parseArgs({
    options: {
      backend: { type: 'string', default: 'reflink' },
      nodes: { type: 'string' },
      small: { type: 'boolean' },
      keep: { type: 'boolean' },
      program: { type: 'string', default: join(repository, 'dist/main.js') },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return console.log(HELP);
  const job = jobFor(values);
  heedSignals();
  const place = await mkdtemp(join(tmpdir(), 'blockdelta-quickstart-'));
  const { backend, keep = false, program } = values;
  const made = { undo: [], services: [], snapshots: [], published: [] };
  const session = { place, backend, program, ...made, ...(values.small ? SMALL : NORMAL) };
  let identical = false;
  try {
    identical = await job.run(session);
    // A signal during the last step.
    throwIfInterrupted();
  } finally {
    if (keep && identical && !isInterrupted()) leaveRunning(session, job);
    else await cleanUp(session);
  }
  console.log(`\nVERDICT: ${identical ? job.VERDICT.identical : `MISMATCH: ${job.VERDICT.different}`}`);
  if (!identical) process.exitCode = 1;
}

/** Throws if the options do not fit together. */
function jobFor({ backend, nodes }) {
  if (!BACKENDS.includes(backend)) throw new Error(`--backend is one of ${BACKENDS.join(', ')}`);
  if (nodes === undefined) return oneNode;
  if (nodes !== '2') throw new Error('--nodes can only be 2');
  if (backend === 'thin') throw new Error('--nodes and --backend thin exclude each other: both nodes have reflink pools');
  return twoNodes;
}

function leaveRunning(session, job) {
  for (const { child } of session.services) child.unref();
  console.log(job.nextCommands(session));
}

/** Undoes everything in the opposite order. A step that fails is reported, stops no other one, and makes the job exit with 1. */
async function cleanUp({ undo, place }) {
  headline('cleaning up');
  for (const step of [...undo.reverse(), () => removePlace(place)]) {
    await step().catch((error) => {
      detail(`clean-up: ${error.details ?? error.message}`);
      process.exitCode = 1;
    });
  }
}

main().catch((error) => {
  console.error(`\nquickstart failed: ${error.details ?? error.message}`);
  process.exitCode = 1;
});
