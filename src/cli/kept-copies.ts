/** `blockdelta replicas --verify` and `blockdelta replicas delete`: ask a router to compare copies of snapshots, or to remove them. */
import type { Command } from 'commander';
import { CsiError, messageOf, StatusCode } from '../base/errors.js';
import { humanSize } from '../base/human-size.js';
import { ExitCode } from './exit-codes.js';
import { formatJson } from './inspection/tables.js';
import { complain, print } from './output.js';
import { ProgressLine } from './progress.js';
import { ROUTER_ENDPOINT_HELP, type RouterClient, withRouter } from './router-client.js';

interface Verified {
  snapshotId: string;
  nodeId: string;
  result: 'equal' | 'different' | 'lost' | 'not verified';
  /** Where the first part begins that differs; null unless the copy is different. */
  offset: bigint | null;
  /** What was compared. */
  bytes: bigint;
  /** Null if the copy is equal. */
  why: string | null;
}

/** Resolves to the exit code: FAILURE if a copy is not its snapshot, and NOT_EXAMINED if that is unknown of some. */
export async function verifyCopies(command: Command, snapshotId: string, isJson: boolean): Promise<ExitCode> {
  const found: Verified[] = [];
  let unreachable: readonly string[] = [];
  const code = await withRouter(command, async (router, signal) => {
    const list = await router.call('ListCopies', { snapshot_id: snapshotId });
    unreachable = list.unreachable;
    if (list.copies.length === 0 && snapshotId !== '' && unreachable.length === 0) {
      throw CsiError.notFound(`the node of snapshot ${snapshotId} knows no copy of it that another node keeps`);
    }
    for (const { snapshot_id, node_id } of list.copies) {
      const copy = await verifyCopy(router, { snapshotId: snapshot_id, nodeId: node_id }, signal);
      found.push(copy);
      if (!isJson) await print(lineOf(copy));
    }
    if (isJson) await print(formatJson({ copies: found, unreachable }));
    for (const node of unreachable)
      complain(`node '${node}' cannot be reached: copies of its snapshots are not verified`);
    if (!isJson) await print(`copies: ${found.length}, different or lost: ${found.filter(isWrong).length}\n`);
  });
  if (code !== ExitCode.OK) return code;
  if (found.some(isWrong)) return ExitCode.FAILURE;
  const isWhole = unreachable.length === 0 && found.every(({ result }) => result === 'equal');
  return isWhole ? ExitCode.OK : ExitCode.NOT_EXAMINED;
}

const isWrong = ({ result }: Verified): boolean => result === 'different' || result === 'lost';

async function verifyCopy(
  router: RouterClient,
  copy: Pick<Verified, 'snapshotId' | 'nodeId'>,
  signal: AbortSignal,
): Promise<Verified> {
  let bytes = 0n;
  let share: number | null = null;
  const line = new ProgressLine(() => ({ share, text: `${copy.snapshotId} on ${copy.nodeId}` }));
  try {
    for (;;) {
      signal.throwIfAborted();
      const request = { snapshot_id: copy.snapshotId, node_id: copy.nodeId, offset: String(bytes) };
      const { result, why, end, size_bytes: size } = await router.call('CompareCopy', request);
      if (result === 'LOST') return { ...copy, result: 'lost', offset: null, bytes, why };
      if (result === 'DIFFERENT') {
        return { ...copy, result: 'different', offset: bytes, bytes: BigInt(end), why: `in bytes ${bytes} to ${end}` };
      }
      bytes = BigInt(end);
      if (end === size) return { ...copy, result: 'equal', offset: null, bytes, why: null };
      share = Number(bytes) / Number(size);
    }
  } catch (thrown) {
    signal.throwIfAborted();
    return { ...copy, result: 'not verified', offset: null, bytes, why: messageOf(thrown) };
  } finally {
    line.end();
  }
}

function lineOf({ snapshotId, nodeId, result, bytes, why }: Verified): string {
  return `${snapshotId} on ${nodeId}: ${result}${why === null ? `, ${humanSize(bytes)}` : `: ${why}`}\n`;
}

export function addDeleteCopies(replicas: Command): void {
  const command = replicas.command('delete');
  command
    .description('have a router remove all copies of a snapshot that its own node has lost')
    .argument('<snapshot>', 'id of the snapshot')
    .requiredOption('--force', 'also the last copy: nothing can bring the snapshot back')
    .option('--endpoint <endpoint>', ROUTER_ENDPOINT_HELP)
    .action(async (snapshotId: string) => {
      process.exitCode = await withRouter(command, async (router) => {
        const { unreachable } = await router.call('DeleteCopies', { snapshot_id: snapshotId });
        const nodes = unreachable.join(', ');
        if (nodes === '') return print(`no node that can be reached has a copy of ${snapshotId} any more\n`);
        throw new CsiError(
          StatusCode.UNAVAILABLE,
          `these nodes cannot be reached and may have a copy of ${snapshotId}: ${nodes}; repeat the command when they are back`,
        );
      });
    });
}
