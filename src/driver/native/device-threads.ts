/**
 * Sends each call of the addon to the threads that suit it: mounting replays a journal and unmounting writes a
 * cache back, which takes minutes, and no other volume's call waits behind that. Knows no request.
 */
import type { NativePool, NativeRunner, UnaryMethod } from './pool.js';

const WAITS_FOR_A_FILE_SYSTEM: ReadonlySet<UnaryMethod> = new Set([
  'mountFileSystem',
  'unmountLayer',
]);

export class DeviceThreads implements NativeRunner {
  constructor(
    private readonly devices: Pick<NativePool, 'run'>,
    private readonly mounts: Pick<NativePool, 'run'>,
  ) {}

  readonly run: NativeRunner['run'] = (method, request) =>
    (WAITS_FOR_A_FILE_SYSTEM.has(method) ? this.mounts : this.devices).run(method, request);
}
