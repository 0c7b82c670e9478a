/** Nobody in deploy/kubernetes has more rights in the API than docs/kubernetes.md lists. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cluster, forEveryOverlay, KUBERNETES_DOCUMENT, OVERLAYS } from '../../support/cluster.js';
import { skipWithoutKubectl as skip } from '../../support/manifests.js';

test('the roles give what docs/kubernetes.md lists, and nothing else', { skip }, () => {
  const documented = [
    ...KUBERNETES_DOCUMENT.matchAll(/^\| ([\w-]+) \| (cluster|namespace) \| (.*) \| (.*) \|$/gm),
  ];
  const wanted = documented.flatMap(([, role, scope, resources = '', verbs]) =>
    resources.split(', ').map((resource) => `${role} ${scope} ${resource}: ${verbs}`),
  );
  const roles = [...cluster('complete').of('Role'), ...cluster('complete').of('ClusterRole')];
  const found = roles.flatMap(({ kind, metadata, rules }) =>
    (rules as { apiGroups: string[]; resources: string[]; verbs: string[] }[]).flatMap((rule) =>
      rule.resources.map((resource) => {
        assert.equal(rule.apiGroups.length, 1);
        const [group] = rule.apiGroups;
        const scope = kind === 'Role' ? 'namespace' : 'cluster';
        const role = metadata.name.replace(/^blockdelta-/, '');
        return `${role} ${scope} ${resource}${group ? `.${group}` : ''}: ${rule.verbs.join(' ')}`;
      }),
    ),
  );
  assert.deepEqual(found.sort(), wanted.sort());
});

forEveryOverlay('nobody may read Secrets or use wildcards', (cluster) => {
  for (const { metadata, rules } of [...cluster.of('Role'), ...cluster.of('ClusterRole')]) {
    for (const { apiGroups, resources, verbs } of rules) {
      const words = [...apiGroups, ...resources, ...verbs];
      assert.ok(!words.includes('*') && !words.includes('secrets'), metadata.name);
      assert.ok(
        !verbs.some((verb: string) => /^(deletecollection|escalate|bind|impersonate)$/.test(verb)),
      );
    }
  }
});

forEveryOverlay('only containers that talk to the API have a token', (cluster) => {
  const talkers = /^(csi-(provisioner|resizer|snapshotter|snapshot-metadata)|router)$/;
  for (const pod of cluster.pods) {
    assert.equal(pod.spec['automountServiceAccountToken'], false);
    for (const { name, volumeMounts } of pod.containers) {
      const token = volumeMounts.some(({ mountPath }) => mountPath.startsWith('/var/run/secrets'));
      assert.equal(token, talkers.test(name), name);
    }
  }
  const bound = [...cluster.of('RoleBinding'), ...cluster.of('ClusterRoleBinding')];
  assert.ok(bound.every(({ subjects }) => subjects.length === 1));
  assert.ok(bound.every(({ subjects }) => subjects[0].name === cluster.controller.account));
});

test('a role comes with its sidecar', { skip }, () => {
  const needs: Record<string, string> = {
    'blockdelta-router': 'router',
    'blockdelta-provisioner': 'csi-provisioner',
    'blockdelta-resizer': 'csi-resizer',
    'blockdelta-snapshotter': 'csi-snapshotter',
    'blockdelta-group-snapshotter': 'csi-snapshotter',
    'blockdelta-snapshot-metadata': 'csi-snapshot-metadata',
  };
  for (const overlay of OVERLAYS) {
    const names = cluster(overlay).controller.containers.map(({ name }) => name);
    const bindings = [
      ...cluster(overlay).of('RoleBinding'),
      ...cluster(overlay).of('ClusterRoleBinding'),
    ];
    for (const { roleRef } of bindings)
      assert.ok(names.includes(needs[roleRef.name] ?? ''), overlay);
    const roles = bindings.map(({ roleRef }) => needs[roleRef.name]);
    for (const name of names) assert.ok(roles.includes(name), `${overlay}: ${name} has no rights`);
  }
});
