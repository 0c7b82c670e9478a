/** The loop devices of a fake driver go with its process, also where that is killed and cleans nothing up. */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { procText } from '../support/child-processes.js';
import { test } from '../support/running-plugin.js';
import { loopsBelow, Workspace } from '../support/workspace.js';
import { State } from './fake/state.js';

const workspace = new Workspace('fake-devices');
after(() => workspace.dispose());

test('the device of a staged volume goes with the last descriptor, and is detached when unstaged', () => {
  const state = new State(workspace.path(), {});
  const spec = { name: 'volume', sizeBytes: 1 << 20, parameters: {}, source: null };
  const volume = state.makeVolume(spec, null);
  state.stage(volume, '/staging');
  const [device, ...others] = loopsBelow(workspace.directory);
  assert.deepEqual(others, []);
  const autoclear = device?.replace('/dev/', '/sys/block/').concat('/loop/autoclear') ?? '';
  assert.equal(procText(autoclear), '1\n');
  state.unstage(volume);
  assert.deepEqual(loopsBelow(workspace.directory), []);
});
