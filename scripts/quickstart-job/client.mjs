/** A small CSI client: what an orchestrator and a backup tool call, with the calls that take it back. */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const READY_MS = 120_000;

const proto = fileURLToPath(new URL('../../proto/csi.proto', import.meta.url));
const options = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };
const services = grpc.loadPackageDefinition(loadSync(proto, options)).csi.v1;

function onlyOn(node) {
  const topologies = [{ segments: { 'blockdelta.csi/node': node } }];
  return { requisite: topologies, preferred: topologies };
}

export function connect(endpoint) {
  const clients = {};
  for (const [name, Client] of Object.entries(services)) {
    if (Client.service === undefined) continue;
    clients[name] = new Client(endpoint, grpc.credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
    });
  }
  return new QuickstartClient(clients);
}

class QuickstartClient {
  #clients;

  constructor(clients) {
    this.#clients = clients;
  }

  call(service, rpc, request, timeoutMs = 120_000) {
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + timeoutMs;
      this.#clients[service][rpc](request, { deadline }, (error, response) =>
        error ? reject(error) : resolve(response),
      );
    });
  }

  /** Throws why the process is not ready, as the end of a sentence that begins with its name. */
  async waitReady(child) {
    const deadline = Date.now() + READY_MS;
    // On a slow machine, asking is what keeps the plugin from getting ready.
    for (let pause = 50; Date.now() < deadline; pause = Math.min(pause * 1.2, 1000)) {
      await delay(pause);
      const ending = child.exitCode ?? child.signalCode;
      if (ending !== null) throw new Error(`ended with ${ending}`);
      const probe = await this.call('Identity', 'Probe', {}, 10_000).catch(() => null);
      if (probe !== null && probe.ready?.value !== false) return;
    }
    throw new Error(`did not get ready in ${READY_MS / 1000} s`);
  }

  /** A client with the node service of another one, and all others of this. */
  withNode(other) {
    return new QuickstartClient({ ...this.#clients, Node: other.#clients.Node });
  }

  /**
   * @param node where it has to be made; undefined if there is only one
   * @param onAborted what is awaited before an aborted call is repeated, with the message; without it, the call fails
   */
  async createVolume(session, { name, capability, bytes, source, node, parameters, onAborted }) {
    const request = {
      name,
      capacity_range: { required_bytes: bytes },
      volume_capabilities: [capability],
      parameters,
      volume_content_source: source ? { snapshot: { snapshot_id: source.snapshot_id } } : null,
      accessibility_requirements: node === undefined ? null : onlyOn(node),
    };
    const { volume } = await this.#unlessAborted(() => this.call('Controller', 'CreateVolume', request), onAborted);
    session.undo.push(() => this.call('Controller', 'DeleteVolume', { volume_id: volume.volume_id }));
    return volume;
  }

  async #unlessAborted(call, onAborted) {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (error.code !== grpc.status.ABORTED || onAborted === undefined) throw error;
        await onAborted(error.details);
      }
    }
  }

  /** Stages and publishes at <place>/<name>. */
  async publish(session, { volume, capability, name, node, readonly = false }) {
    const ids = { volume_id: volume.volume_id };
    const staging = { ...ids, staging_target_path: join(session.place, `staging-${name}`) };
    const target = { ...ids, target_path: join(session.place, name) };
    await mkdir(staging.staging_target_path);
    session.undo.push(async () => {
      await this.call('Node', 'NodeUnstageVolume', staging);
      await rm(staging.staging_target_path, { recursive: true });
    });
    await this.call('Node', 'NodeStageVolume', { ...staging, volume_capability: capability });
    session.undo.push(() => this.call('Node', 'NodeUnpublishVolume', target));
    const { staging_target_path: path } = staging;
    session.published.push({ target: target.target_path, staged: capability.block ? join(path, 'device') : path, node });
    await this.call('Node', 'NodePublishVolume', {
      ...staging,
      ...target,
      volume_capability: capability,
      readonly,
    });
  }

  /** @param onPending as in snapshot() of volumes.mjs */
  async createSnapshot(session, { volume, name, onPending }) {
    const parameters = onPending === undefined ? {} : { copies: '1' };
    const request = { source_volume_id: volume.volume_id, name, parameters };
    const { snapshot } = await this.call('Controller', 'CreateSnapshot', request);
    session.snapshots.push(snapshot.snapshot_id);
    session.undo.push(() =>
      this.call('Controller', 'DeleteSnapshot', { snapshot_id: snapshot.snapshot_id }),
    );
    for (let isReady = snapshot.ready_to_use; !isReady; ) {
      await onPending();
      isReady = (await this.call('Controller', 'CreateSnapshot', request)).snapshot.ready_to_use;
    }
    return snapshot;
  }

  /** A whole changed-block list with its timing. */
  async metadata(rpc, request) {
    const started = performance.now();
    const answer = { ranges: [], bytes: 0n, capacity: 0n, firstMessageMs: 0, ms: 0 };
    for await (const message of this.#clients.SnapshotMetadata[rpc](request)) {
      answer.firstMessageMs ||= performance.now() - started;
      answer.capacity = BigInt(message.volume_capacity_bytes);
      for (const block of message.block_metadata) {
        const range = { offset: BigInt(block.byte_offset), size: BigInt(block.size_bytes) };
        answer.ranges.push(range);
        answer.bytes += range.size;
      }
    }
    answer.ms = performance.now() - started;
    return answer;
  }

  close() {
    for (const client of Object.values(this.#clients)) client.close();
  }
}
