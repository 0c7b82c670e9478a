/** Defects of volumes and snapshots themselves. */
import { writeFile } from 'node:fs/promises';
import type { Defect } from './defect.js';
import { refusal } from './refusal.js';

/** Forgets the name of what was made, so that the next call of the same name makes another. */
function forgetsNames(rpc: 'CreateVolume' | 'CreateSnapshot'): Defect['fault'] {
  return {
    rpcs: (honest, state) => ({
      [rpc]: (request) => {
        const all = rpc === 'CreateVolume' ? state.volumes : state.snapshots;
        for (const known of all.values()) {
          if (known.name === request['name']) known.name = `${known.name} of old`;
        }
        return honest[rpc]?.(request) ?? {};
      },
    }),
  };
}

/** Answers with what has the name, whatever was asked for. */
function takesNameForAll(rpc: 'CreateVolume' | 'CreateSnapshot'): Defect['fault'] {
  return {
    rpcs: (honest, state) => ({
      [rpc]: (request) => {
        const known =
          rpc === 'CreateVolume'
            ? [...state.volumes.values()].find(({ name }) => name === request['name'])
            : [...state.snapshots.values()].find(({ name }) => name === request['name']);
        if (known === undefined) return honest[rpc]?.(request) ?? {};
        const instead =
          'volumeId' in known
            ? { source_volume_id: known.volumeId }
            : { capacity_range: { required_bytes: known.sizeBytes, limit_bytes: 0 } };
        return honest[rpc]?.({ ...request, ...instead }) ?? {};
      },
    }),
  };
}

/** Takes a request without a name as one with a name of its own. */
function namesTheNameless(rpc: 'CreateVolume' | 'CreateSnapshot'): Defect['fault'] {
  return {
    rpcs: (honest, state) => ({
      [rpc]: (request) =>
        honest[rpc]?.({ ...request, name: request['name'] || `nameless-${state.next()}` }) ?? {},
    }),
  };
}

export const VOLUME_DEFECTS: readonly Defect[] = [
  {
    name: 'volume-made-twice',
    does: 'makes another volume when it is asked for one again',
    caughtBy: ['volume.create-idempotent'],
    fault: forgetsNames('CreateVolume'),
  },
  {
    name: 'volume-of-any-size',
    does: 'answers with the volume of that name, though it is too small',
    caughtBy: ['volume.create-conflict'],
    fault: takesNameForAll('CreateVolume'),
  },
  {
    name: 'volume-without-name',
    does: 'makes volumes without a name',
    caughtBy: ['volume.create-missing-fields'],
    fault: namesTheNameless('CreateVolume'),
  },
  {
    name: 'volume-never-confirmed',
    does: 'confirms no capability of a volume',
    caughtBy: ['volume.validate'],
    fault: {
      rpcs: (honest) => ({
        ValidateVolumeCapabilities: async (request) => {
          await honest['ValidateVolumeCapabilities']?.(request);
          return { message: 'who knows' };
        },
      }),
    },
  },
  {
    name: 'volume-too-small',
    does: 'makes volumes of half the size asked for',
    caughtBy: ['volume.create-idempotent'],
    fault: {
      rpcs: (honest) => ({
        CreateVolume: async (request) => {
          const required_bytes = Number(request['capacity_range'].required_bytes) / 2;
          const capacity_range = { required_bytes, limit_bytes: 0 };
          return (await honest['CreateVolume']?.({ ...request, capacity_range })) ?? {};
        },
      }),
    },
  },
  {
    name: 'volume-from-nothing',
    does: 'makes an empty volume when the snapshot it shall come from is not there',
    caughtBy: ['volume.create-from-missing'],
    fault: {
      rpcs: (honest, state) => ({
        CreateVolume: (request) => {
          const id = request['volume_content_source']?.snapshot?.snapshot_id;
          const isMissing = id !== undefined && !state.snapshots.has(id);
          const instead = isMissing ? { volume_content_source: null } : {};
          return honest['CreateVolume']?.({ ...request, ...instead }) ?? {};
        },
      }),
    },
  },
  {
    name: 'volume-delete-not-found',
    does: 'answers NOT_FOUND when the volume to delete is not there',
    caughtBy: ['volume.delete'],
    fault: {
      rpcs: (honest, state) => ({
        DeleteVolume: (request) => {
          if (request['volume_id'] !== '') state.volume(request['volume_id']);
          return honest['DeleteVolume']?.(request) ?? {};
        },
      }),
    },
  },
  {
    name: 'volume-list-without-pages',
    does: 'lists all volumes, whatever max_entries says',
    caughtBy: ['volume.list'],
    fault: {
      rpcs: (honest) => ({
        ListVolumes: (request) => honest['ListVolumes']?.({ ...request, max_entries: 0 }) ?? {},
      }),
    },
  },
  {
    name: 'volume-list-of-one-page',
    does: 'tells of no page after the first',
    caughtBy: ['volume.list'],
    fault: {
      rpcs: (honest) => ({
        ListVolumes: async (request) => ({
          ...(await honest['ListVolumes']?.(request)),
          next_token: '',
        }),
      }),
    },
  },
  {
    name: 'target-left-behind',
    does: 'leaves a file at the target path when it unpublishes',
    caughtBy: ['volume.publish-twice'],
    fault: {
      rpcs: (honest) => ({
        NodeUnpublishVolume: async (request) => {
          const answer = (await honest['NodeUnpublishVolume']?.(request)) ?? {};
          await writeFile(request['target_path'], '');
          return answer;
        },
      }),
    },
  },
  {
    name: 'publish-once',
    does: 'refuses to publish at a path where the volume is already',
    caughtBy: ['volume.publish-twice'],
    fault: {
      rpcs: (honest, state) => ({
        NodePublishVolume: (request) => {
          const volume = state.volumes.get(request['volume_id']);
          if (volume?.publications.has(request['target_path'])) {
            throw refusal('INTERNAL', `${request['target_path']} is there already`);
          }
          return honest['NodePublishVolume']?.(request) ?? {};
        },
      }),
    },
  },
  {
    name: 'snapshot-made-twice',
    does: 'cuts another snapshot when it is asked for one again',
    caughtBy: ['snapshot.create-idempotent'],
    fault: forgetsNames('CreateSnapshot'),
  },
  {
    name: 'snapshot-of-another-volume',
    does: 'answers with the snapshot of that name, though it is of another volume',
    caughtBy: ['snapshot.create-conflict'],
    fault: takesNameForAll('CreateSnapshot'),
  },
  {
    name: 'snapshot-without-name',
    does: 'cuts snapshots without a name',
    caughtBy: ['snapshot.create-missing-fields'],
    fault: namesTheNameless('CreateSnapshot'),
  },
  {
    name: 'snapshot-unknown-is-empty',
    does: 'answers OK without a snapshot when asked for an unknown one',
    caughtBy: ['snapshot.get'],
    fault: {
      rpcs: (honest, state) => ({
        GetSnapshot: (request) =>
          request['snapshot_id'] === '' || state.snapshots.has(request['snapshot_id'])
            ? (honest['GetSnapshot']?.(request) ?? {})
            : {},
      }),
    },
  },
  {
    name: 'snapshot-delete-not-found',
    does: 'answers NOT_FOUND when the snapshot to delete is not there',
    caughtBy: ['snapshot.delete'],
    fault: {
      rpcs: (honest, state) => ({
        DeleteSnapshot: (request) => {
          if (request['snapshot_id'] !== '') state.snapshot(request['snapshot_id']);
          return honest['DeleteSnapshot']?.(request) ?? {};
        },
      }),
    },
  },
  {
    name: 'snapshot-list-unfiltered',
    does: 'lists the snapshots of all volumes when asked for those of one',
    caughtBy: ['snapshot.list'],
    fault: {
      rpcs: (honest) => ({
        ListSnapshots: (request) =>
          honest['ListSnapshots']?.({ ...request, source_volume_id: '' }) ?? {},
      }),
    },
  },
];
