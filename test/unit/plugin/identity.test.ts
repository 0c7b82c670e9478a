import assert from 'node:assert/strict';
import { test } from 'node:test';
import { probe } from '../../../src/base/csi/probe.js';
import type { AnyUnaryHandler, CallContext, UnaryHandlers } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import { packageVersion } from '../../../src/base/version.js';
import { createIdentityService } from '../../../src/driver/plugin/identity.js';

const broken = async (): Promise<never> => {
  throw CsiError.failedPrecondition('pool default is not mounted');
};

function ask(rpc: keyof UnaryHandlers<'Identity'>): Promise<object> {
  const identity = createIdentityService({
    driverName: 'blockdelta.csi',
    vendorVersion: packageVersion(),
    csiLevel: '1.12',
    controllerPublish: false,
    health: broken,
  });
  const handler: AnyUnaryHandler | undefined = identity.unary[rpc];
  assert.ok(handler !== undefined, rpc);
  return handler({} as never, {} as CallContext);
}

test('ID2, ID3, ID4 and E18: name, version and capabilities are served while the plugin is broken', async () => {
  assert.deepEqual(await ask('GetPluginInfo'), { name: 'blockdelta.csi', vendor_version: packageVersion() });
  assert.match(packageVersion(), /^\d+\.\d+\.\d+/);
  assert.ok(Buffer.byteLength(packageVersion()) <= 128);
  assert.deepEqual(await ask('GetPluginCapabilities'), {
    capabilities: [
      { service: { type: 'CONTROLLER_SERVICE' } },
      { service: { type: 'VOLUME_ACCESSIBILITY_CONSTRAINTS' } },
      { service: { type: 'GROUP_CONTROLLER_SERVICE' } },
      { service: { type: 'SNAPSHOT_METADATA_SERVICE' } },
      { volume_expansion: { type: 'ONLINE' } },
    ],
  });
});

test('a Probe waits for the end of a start, unless its caller has no time, and passes on why the plugin does not work', async () => {
  const { signal } = new AbortController();
  let asked = 0;
  const isReady = async (): Promise<boolean> => {
    asked += 1;
    return asked >= 3;
  };
  assert.deepEqual(await probe(isReady, { deadline: Date.now(), signal }), { ready: { value: false } });
  assert.equal(asked, 1);
  assert.deepEqual(await probe(isReady, { deadline: Infinity, signal }), { ready: { value: true } });
  assert.equal(asked, 3);
  await assert.rejects(probe(broken, { deadline: Infinity, signal }), /is not mounted/);
  const reason = CsiError.unavailable('the caller has gone');
  await assert.rejects(
    probe(async () => false, { deadline: Infinity, signal: AbortSignal.abort(reason) }),
    reason,
  );
});
