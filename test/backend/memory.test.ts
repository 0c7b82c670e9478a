import { describeBackend } from './backend-contract.js';
import { type BackendHarness, started } from './harness.js';
import { BLOCK_BYTES, MemoryBackend, MemoryStorage } from './memory-backend.js';

describeBackend('memory', makeHarness, { skip: false, attaches: false, keepsBases: true });

async function makeHarness(): Promise<BackendHarness> {
  const storage = new MemoryStorage();
  const backend = new MemoryBackend(storage);
  return {
    backend,
    attaches: false,
    write: async (volumeId, offset, bytes) => backend.write(volumeId, offset, bytes),
    discard: async (volumeId, offset, length) => backend.discard(volumeId, offset, length),
    read: async (volumeId) => backend.read(volumeId),
    release: async () => undefined,
    discardGranularity: BLOCK_BYTES,
    leaveTemporary: async (objects) => {
      const names = objects.map(({ id }) => `${id}.tmp`);
      for (const name of names) storage.temporary.add(name);
      return names;
    },
    leaveForeign: async () => void storage.foreign.add('readme.txt'),
    reallyFree: async () => 1n << 30n,
    reopen: () => started(new MemoryBackend(storage)),
    dispose: async () => undefined,
  };
}
