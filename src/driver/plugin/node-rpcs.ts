/** The node's side of blockdelta.node.v1 (proto/node.proto), for routers. */
import { requireString } from '../../base/csi/fields.js';
import { NODE_SERVICE, type NodeRpc, type NodeRpcs, nodeMethod, nodeProto } from '../../base/csi/node-proto.js';
import { decodeMessage, encodeMessage, requestTypeOf } from '../../base/csi/proto.js';
import type { CallContext, RequestOf, ResponseOf } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { ServedRpc } from '../../server/calls/served-rpc.js';
import type { DescribedSnapshot } from '../catalogue/records.js';
import type { CloneSnapshots } from '../replicas/clone-snapshots.js';
import type { Copies } from '../replicas/copies.js';
import type { PartDigest, SnapshotPart } from '../replicas/digest.js';
import type { KnownCopy } from '../replicas/known-copy.js';
import * as messages from '../replicas/node-messages.js';
import type { OpenTransfers } from '../replicas/open-transfers.js';
import type { Pulls } from '../replicas/pulls.js';
import type { ReplicaKeeper } from '../replicas/replica-keeper.js';
import type { Room } from '../replicas/room.js';
import type { Successions } from '../replicas/successions.js';
import type { StagingClearance } from '../volumes/staging-clearance.js';

/** What routers ask of the plugin, once it has started. */
export interface NodeSide {
  /** Resolves to the id of the volume with that name; null if there is none. */
  findVolume(name: string, signal: AbortSignal): Promise<string | null>;
  /** Null if this node has no such snapshot that is ready. */
  describeSnapshot(snapshotId: string): Promise<DescribedSnapshot | null>;
  clones: Pick<CloneSnapshots, 'take'>;
  transfers: Pick<OpenTransfers, 'open' | 'close'>;
  pulls: Pick<Pulls, 'pull' | 'state' | 'bases' | 'asked'>;
  replicas: Pick<ReplicaKeeper, 'promise' | 'endPromise'>;
  copies: Pick<Copies, 'kept' | 'unsettled' | 'choose' | 'report'>;
  clearance: Pick<StagingClearance, 'isGiven' | 'give'>;
  successions: Pick<Successions, 'supersede' | 'cordon' | 'uncordon' | 'record' | 'list' | 'untold'>;
  findCopy(snapshotId: string): Promise<KnownCopy>;
  findRoom(volumeId: string, pool: string): Promise<Room>;
  digest(part: SnapshotPart, signal: AbortSignal): Promise<PartDigest>;
  /** As createCopiedSnapshot, with the check that precedes every CreateSnapshot. */
  createCopiedSnapshot(
    request: RequestOf<'CreateSnapshot'>,
    nodeId: string | null,
    context: CallContext,
  ): Promise<ResponseOf<'CreateSnapshot'> | null>;
}

type Handlers = {
  [R in NodeRpc]: (request: NodeRpcs[R][0], node: NodeSide, context: CallContext) => Promise<NodeRpcs[R][1]>;
};

const HANDLERS: Handlers = {
  FindVolume: async ({ name }, node, { signal }) => ({
    volume_id: (await node.findVolume(requireString(name, 'name'), signal)) ?? '',
  }),
  FindSnapshot: async (request, node) => {
    const { snapshotId, snapshot } = messages.findRequest(request);
    const own = await node.describeSnapshot(snapshotId);
    const state = own === null ? await node.pulls.state(snapshotId) : null;
    return {
      snapshot: own === null ? null : messages.snapshotMessage(own),
      pull: state === null ? null : messages.pullStateMessage(state),
      bases: snapshot === null ? [] : messages.baseMessages(await node.pulls.bases(snapshot)),
    };
  },
  OpenTransfer: async (request, node, context) => {
    const wanted = messages.parseTransferRequest(request);
    const transfer = await node.transfers.open(wanted, context.signal);
    const { reader } = wanted;
    const { baseId, offset, port } = transfer;
    const { ranges, dataBytes } = transfer.piece;
    context.note({ reader, base: baseId ?? '', offset, port, ranges, dataBytes });
    return messages.pieceMessage(transfer);
  },
  CloseTransfer: async (request, node) => {
    await node.transfers.close(messages.parseCloseRequest(request));
    return {};
  },
  SnapshotForClone: async (request, node, context) => {
    const volumeId = requireString(request.volume_id, 'volume_id');
    const name = requireString(request.clone_name, 'clone_name');
    const { deadline, signal } = context;
    const { snapshotId } = await node.clones.take(volumeId, name, deadline, signal);
    context.note({ volume_id: volumeId, clone_name: name, snapshot_id: snapshotId });
    return { snapshot_id: snapshotId };
  },
  PullSnapshot: async (request, node, context) => {
    const { order, waitMs } = messages.parsePull(request);
    const state = await node.pulls.pull(order, waitMs, context.signal);
    const { status, doneBytes, totalBytes } = state;
    context.note({ snapshot_id: order.snapshot.snapshotId, status, doneBytes, totalBytes });
    return messages.pullStateMessage(state);
  },
  KeepReplica: async (request, node) => {
    const { snapshotId, promiseId } = messages.parsePromise(request);
    await node.replicas.promise(snapshotId, promiseId);
    return {};
  },
  EndReplica: async (request, node) => {
    const { snapshotId, promiseId } = messages.parsePromise(request);
    await node.replicas.endPromise(snapshotId, promiseId);
    return {};
  },
  DeleteReplica: async (request, node) => {
    await node.replicas.endPromise(messages.snapshotIdOf(request), null);
    return {};
  },
  CreateCopiedSnapshot: async ({ request, node_id: nodeId }, node, context) => {
    const decoded = decodeRequest(request);
    const response = await node.createCopiedSnapshot(decoded, nodeId === '' ? null : nodeId, context);
    return { response: response === null ? Buffer.alloc(0) : encodeMessage('CreateSnapshotResponse', response) };
  },
  FindRoom: async ({ volume_id: volumeId, pool }, node) =>
    messages.roomMessage(await node.findRoom(requireString(volumeId, 'volume_id'), pool)),
  FindCopy: async (request, node) => messages.knownCopyMessage(await node.findCopy(messages.snapshotIdOf(request))),
  ListCopies: async ({ kept }, node) => ({
    copies: (await (kept ? node.copies.kept() : node.copies.unsettled())).map(messages.copyMessage),
    awaits_clearance: !(await node.clearance.isGiven()),
    untold: (await node.successions.untold()).map(messages.successionMessage),
  }),
  ClearStaging: async (_request, node) => {
    await node.clearance.give();
    return {};
  },
  SupersedeVolume: async (request, node, { signal }) => {
    await node.successions.supersede(messages.parseSuccession(request), signal);
    return {};
  },
  CordonVolume: async (request, node, { signal }) => {
    const { volumeId, isUndone } = messages.parseCordon(request);
    await (isUndone ? node.successions.uncordon(volumeId, signal) : node.successions.cordon(volumeId, signal));
    return {};
  },
  RecordSuccession: async (request, node) => {
    await node.successions.record(messages.parseSuccession(request));
    return {};
  },
  ListSuccessions: async (_request, node) => ({
    successions: (await node.successions.list()).map(messages.successionMessage),
  }),
  ChooseCopy: async ({ node_id: nodeId, ...promise }, node) => {
    await node.copies.choose(messages.parsePromise(promise), requireString(nodeId, 'node_id'));
    return {};
  },
  ReportCopy: async (request, node) => {
    const { copy, outcome } = messages.parseReport(request);
    await node.copies.report(copy, outcome);
    return {};
  },
  DigestSnapshot: async (request, node, { signal }) => {
    const { sha256, sizeBytes } = await node.digest(messages.parsePart(request), signal);
    return { sha256, size_bytes: String(sizeBytes) };
  },
  ListPulls: async (_request, node) => ({
    pulls: (await node.pulls.asked()).map(({ record, state }) => messages.pullMessage(record, state)),
  }),
};

function decodeRequest(bytes: Buffer): RequestOf<'CreateSnapshot'> {
  try {
    return decodeMessage('CreateSnapshotRequest', bytes);
  } catch (thrown) {
    throw CsiError.invalidArgument('request is not an encoded CreateSnapshotRequest', { cause: thrown });
  }
}

/** @param node throws UNAVAILABLE until the plugin has started */
export function nodeRpcs(node: () => NodeSide): ServedRpc[] {
  return (Object.keys(HANDLERS) as NodeRpc[]).map((name) => ({
    service: NODE_SERVICE,
    name,
    definition: nodeMethod(name),
    requestType: requestTypeOf(nodeProto().root, NODE_SERVICE, name),
    handler: (find) => async (request: never, context: CallContext) => {
      // This call waits until the plugin has started: nobody knows the volumes before.
      await find('Controller', 'CreateVolume', context);
      return HANDLERS[name](request, node(), context);
    },
  }));
}
