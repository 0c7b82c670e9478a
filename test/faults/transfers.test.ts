/** Faults at the steps of pulls and of copies: at the node that pulls, and at the node that serves. The other node and the router go on. */
import { faultTests } from './fault-tests.js';
import { Neighbour } from './neighbour.js';
import type { Scene } from './scene.js';
import { endCopy, giveCopy, keepCopy, pullSnapshot, removeReplica, serveClone, serveSnapshot } from './transfers.js';

const neighbours = new WeakMap<Scene, Neighbour>();

function of(scene: Scene): Neighbour {
  const found = neighbours.get(scene);
  if (found === undefined) throw new Error('the scene has no neighbour');
  return found;
}

faultTests('faults-transfers', {
  title: 'replicas and transfers',
  pools: ['xfs'],
  residents: ['block'],
  beside: async (label) => {
    const neighbour = await Neighbour.start(`${label}-neighbour`);
    return {
      env: neighbour.env('scene'),
      by: neighbour.by('scene'),
      join: async (scene) => {
        neighbours.set(scene, neighbour);
        await neighbour.reaches('scene');
      },
      dispose: () => neighbour.dispose(),
    };
  },
  operations: [
    pullSnapshot(of, { hasBase: true }),
    pullSnapshot(of, { hasBase: false }),
    removeReplica(of),
    serveSnapshot(of, { hasBase: true }),
    serveSnapshot(of, { hasBase: false }),
    serveClone(of),
    keepCopy(of),
    endCopy(of),
    giveCopy(of),
  ],
});
