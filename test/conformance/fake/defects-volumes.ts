/** Defects of volumes and snapshots themselves. */
import { writeFile } from 'node:fs/promises';
import { type Defect, inRpc } from './defect.js';
import { refusal } from './refusal.js';

/** Forgets the name of a created object, so that the next call with the same name creates another. */
function forgetsNames(rpc: 'CreateVolume' | 'CreateSnapshot'): Defect['fault'] {
  return {
    rpcs: (correct, state) => ({
      [rpc]: (request) => {
        const all = rpc === 'CreateVolume' ? state.volumes : state.snapshots;
        for (const known of all.values()) {
          if (known.name === request['name']) known.name = `${known.name} of old`;
        }
        return correct[rpc]?.(request) ?? {};
      },
    }),
  };
}

/** Returns the object of that name, ignoring the rest of the request. */
function takesNameForAll(rpc: 'CreateVolume' | 'CreateSnapshot'): Defect['fault'] {
  return {
    rpcs: (correct, state) => ({
      [rpc]: (request) => {
        const known =
          rpc === 'CreateVolume'
            ? [...state.volumes.values()].find(({ name }) => name === request['name'])
            : [...state.snapshots.values()].find(({ name }) => name === request['name']);
        if (known === undefined) return correct[rpc]?.(request) ?? {};
        const instead =
          'volumeId' in known
            ? { source_volume_id: known.volumeId }
            : { capacity_range: { required_bytes: known.sizeBytes, limit_bytes: 0 } };
        return correct[rpc]?.({ ...request, ...instead }) ?? {};
      },
    }),
  };
}

/** Treats a request without a name as one with a new name. */
function namesTheNameless(rpc: 'CreateVolume' | 'CreateSnapshot'): Defect['fault'] {
  return {
    rpcs: (correct, state) => ({
      [rpc]: (request) =>
        correct[rpc]?.({ ...request, name: request['name'] || `nameless-${state.next()}` }) ?? {},
    }),
  };
}

export const VOLUME_DEFECTS: readonly Defect[] = [
  {
    name: 'volume-made-twice',
    does: 'creates another volume when CreateVolume is repeated',
    caughtBy: ['volume.create-idempotent'],
    fault: forgetsNames('CreateVolume'),
  },
  {
    name: 'volume-of-any-size',
    does: 'returns the volume of that name although it is too small',
    caughtBy: ['volume.create-conflict'],
    fault: takesNameForAll('CreateVolume'),
  },
  {
    name: 'volume-without-name',
    does: 'creates volumes without a name',
    caughtBy: ['volume.create-missing-fields'],
    fault: namesTheNameless('CreateVolume'),
  },
  {
    name: 'volume-never-confirmed',
    does: 'confirms no capability of a volume',
    caughtBy: ['volume.validate'],
    fault: inRpc('ValidateVolumeCapabilities', (correct) => async (request) => {
      await correct(request);
      return { message: 'who knows' };
    }),
  },
  {
    name: 'volume-too-small',
    does: 'creates volumes of half the requested size',
    caughtBy: ['volume.create-idempotent'],
    fault: inRpc('CreateVolume', (correct) => async (request) => {
      const required_bytes = Number(request['capacity_range'].required_bytes) / 2;
      const capacity_range = { required_bytes, limit_bytes: 0 };
      return await correct({ ...request, capacity_range });
    }),
  },
  {
    name: 'volume-from-nothing',
    does: 'creates an empty volume when the source snapshot does not exist',
    caughtBy: ['volume.create-from-missing'],
    fault: inRpc('CreateVolume', (correct, state) => (request) => {
      const id = request['volume_content_source']?.snapshot?.snapshot_id;
      const isMissing = id !== undefined && !state.snapshots.has(id);
      const instead = isMissing ? { volume_content_source: null } : {};
      return correct({ ...request, ...instead });
    }),
  },
  {
    name: 'volume-delete-not-found',
    does: 'answers NOT_FOUND to the deletion of an unknown volume',
    caughtBy: ['volume.delete'],
    fault: inRpc('DeleteVolume', (correct, state) => (request) => {
      if (request['volume_id'] !== '') state.volume(request['volume_id']);
      return correct(request);
    }),
  },
  {
    name: 'volume-list-without-pages',
    does: 'lists all volumes, ignoring max_entries',
    caughtBy: ['volume.list'],
    fault: inRpc('ListVolumes', (correct) => (request) => correct({ ...request, max_entries: 0 })),
  },
  {
    name: 'volume-list-of-one-page',
    does: 'never returns a token for the next page',
    caughtBy: ['volume.list'],
    fault: inRpc('ListVolumes', (correct) => async (request) => ({
      ...(await correct(request)),
      next_token: '',
    })),
  },
  {
    name: 'target-left-behind',
    does: 'leaves a file at the target path when it unpublishes',
    caughtBy: ['volume.publish-twice'],
    fault: inRpc('NodeUnpublishVolume', (correct) => async (request) => {
      const answer = await correct(request);
      await writeFile(request['target_path'], '');
      return answer;
    }),
  },
  {
    name: 'publish-once',
    does: 'refuses to publish again at a path where the volume is already published',
    caughtBy: ['volume.publish-twice'],
    fault: inRpc('NodePublishVolume', (correct, state) => (request) => {
      const volume = state.volumes.get(request['volume_id']);
      if (volume?.publications.has(request['target_path'])) {
        throw refusal('INTERNAL', `${request['target_path']} is there already`);
      }
      return correct(request);
    }),
  },
  {
    name: 'snapshot-made-twice',
    does: 'takes another snapshot when CreateSnapshot is repeated',
    caughtBy: ['snapshot.create-idempotent'],
    fault: forgetsNames('CreateSnapshot'),
  },
  {
    name: 'snapshot-of-another-volume',
    does: 'returns the snapshot of that name although it is of another volume',
    caughtBy: ['snapshot.create-conflict'],
    fault: takesNameForAll('CreateSnapshot'),
  },
  {
    name: 'snapshot-without-name',
    does: 'creates snapshots without a name',
    caughtBy: ['snapshot.create-missing-fields'],
    fault: namesTheNameless('CreateSnapshot'),
  },
  {
    name: 'snapshot-unknown-is-empty',
    does: 'answers OK without a snapshot for an unknown id',
    caughtBy: ['snapshot.get'],
    fault: inRpc(
      'GetSnapshot',
      (correct, state) => (request) =>
        request['snapshot_id'] === '' || state.snapshots.has(request['snapshot_id'])
          ? correct(request)
          : {},
    ),
  },
  {
    name: 'snapshot-delete-not-found',
    does: 'answers NOT_FOUND to the deletion of an unknown snapshot',
    caughtBy: ['snapshot.delete'],
    fault: inRpc('DeleteSnapshot', (correct, state) => (request) => {
      if (request['snapshot_id'] !== '') state.snapshot(request['snapshot_id']);
      return correct(request);
    }),
  },
  {
    name: 'snapshot-list-unfiltered',
    does: 'lists the snapshots of all volumes, ignoring source_volume_id',
    caughtBy: ['snapshot.list'],
    fault: inRpc(
      'ListSnapshots',
      (correct) => (request) => correct({ ...request, source_volume_id: '' }),
    ),
  },
];
