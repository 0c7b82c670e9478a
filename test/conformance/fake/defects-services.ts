/** Defects of the Identity service, of advertised capabilities, and of error statuses. */
import { type Defect, inRpc } from './defect.js';
import { type Message, Refusal } from './refusal.js';

/** Advertises another controller capability. */
function advertising(type: string | number): Defect['fault'] {
  return {
    rpcs: (correct) => ({
      ControllerGetCapabilities: async (request) => {
        const answer = await correct['ControllerGetCapabilities']?.(request);
        return { capabilities: [...(answer?.['capabilities'] ?? []), { rpc: { type } }] };
      },
    }),
  };
}

function changingCapabilities(): Defect['fault'] {
  let calls = 0;
  return {
    rpcs: (correct) => ({
      GetPluginCapabilities: async (request) => {
        const answer = await correct['GetPluginCapabilities']?.(request);
        calls += 1;
        const isShort = calls % 2 === 1;
        return {
          capabilities: answer?.['capabilities'].filter(
            (one: Message) => !isShort || one['service']?.type !== 'GROUP_CONTROLLER_SERVICE',
          ),
        };
      },
    }),
  };
}

function info(change: object): Defect['fault'] {
  return {
    rpcs: (correct) => ({
      GetPluginInfo: async (request) => ({
        ...(await correct['GetPluginInfo']?.(request)),
        ...change,
      }),
    }),
  };
}

function withDetails(correct: Refusal): Refusal {
  const detailed = new Refusal(correct.code, correct.details);
  detailed.metadata.set('grpc-status-details-bin', Buffer.from([8, correct.code]));
  return detailed;
}

export const SERVICE_DEFECTS: readonly Defect[] = [
  {
    name: 'no-vendor-version',
    does: 'has no vendor_version',
    caughtBy: ['identity.info'],
    fault: info({ vendor_version: '' }),
  },
  {
    name: 'bad-name',
    does: 'has a name that is not a domain name',
    caughtBy: ['identity.info'],
    fault: info({ name: 'Fake_Driver!' }),
  },
  {
    name: 'long-name',
    does: 'has a name of 64 characters',
    caughtBy: ['identity.info'],
    fault: info({ name: `${'a'.repeat(56)}.example` }),
  },
  {
    name: 'never-ready',
    does: 'never becomes ready',
    caughtBy: ['identity.probe'],
    fault: { rpcs: () => ({ Probe: () => ({ ready: { value: false } }) }) },
  },
  {
    name: 'half-of-metadata',
    does: 'advertises SNAPSHOT_METADATA_SERVICE and does not serve GetMetadataDelta',
    caughtBy: ['capability.served'],
    fault: { unserved: ['GetMetadataDelta'] },
  },
  {
    name: 'half-of-groups',
    does: 'advertises GROUP_CONTROLLER_SERVICE and does not serve GetVolumeGroupSnapshot',
    caughtBy: ['capability.served'],
    fault: { unserved: ['GetVolumeGroupSnapshot'] },
  },
  {
    name: 'no-list-snapshots',
    does: 'advertises LIST_SNAPSHOTS and does not serve ListSnapshots',
    caughtBy: ['capability.served'],
    fault: { unserved: ['ListSnapshots'] },
  },
  {
    name: 'no-expand',
    does: 'advertises EXPAND_VOLUME and does not serve ControllerExpandVolume',
    caughtBy: ['capability.served'],
    fault: { unserved: ['ControllerExpandVolume'] },
  },
  {
    name: 'published-nodes-without-publish',
    does: 'advertises LIST_VOLUMES_PUBLISHED_NODES without PUBLISH_UNPUBLISH_VOLUME',
    caughtBy: ['capability.consistency'],
    fault: advertising('LIST_VOLUMES_PUBLISHED_NODES'),
  },
  {
    name: 'health-list-without-health',
    does: 'advertises LIST_VOLUME_HEALTH without GET_VOLUME_HEALTH',
    caughtBy: ['capability.consistency'],
    mayAlsoFail: ['capability.served'],
    fault: advertising('LIST_VOLUME_HEALTH'),
  },
  {
    name: 'expansion-without-expand',
    does: 'advertises online expansion without any EXPAND_VOLUME',
    caughtBy: ['capability.consistency'],
    options: { without: ['EXPAND_VOLUME'] },
    fault: inRpc('GetPluginCapabilities', (correct) => async (request) => {
      const answer = await correct(request);
      const expansion = { volume_expansion: { type: 'ONLINE' } };
      return { capabilities: [...(answer?.['capabilities'] ?? []), expansion] };
    }),
  },
  {
    name: 'unknown-capability',
    does: 'advertises a capability that no version of CSI defines',
    caughtBy: ['capability.known'],
    fault: advertising(99),
  },
  {
    name: 'changing-capabilities',
    does: 'advertises different plugin capabilities in every other call',
    caughtBy: ['identity.stable'],
    fault: changingCapabilities(),
  },
  {
    name: 'no-node-id',
    does: 'has a node without an id',
    caughtBy: ['node.info'],
    fault: { rpcs: () => ({ NodeGetInfo: () => ({ node_id: '' }) }) },
  },
  {
    name: 'topology-without-capability',
    does: 'reports a node topology without VOLUME_ACCESSIBILITY_CONSTRAINTS',
    caughtBy: ['capability.consistency'],
    fault: inRpc('NodeGetInfo', (correct) => async (request) => ({
      ...(await correct(request)),
      accessible_topology: { segments: { 'fake.example/node': 'fake-node' } },
    })),
  },
  {
    name: 'status-without-message',
    does: 'sends errors without a message',
    caughtBy: ['status.message'],
    fault: { refuse: ({ code }) => new Refusal(code, '') },
  },
  {
    name: 'status-with-details',
    does: 'sends rich error details',
    caughtBy: ['status.message'],
    fault: { refuse: withDetails },
  },
];
