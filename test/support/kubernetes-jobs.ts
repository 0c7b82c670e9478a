/**
 * Runs the Jobs of kubernetes-api.ts, as the Job controller and a kubelet do it: each has one pod, and the command of its only
 * container runs as a process of this machine. The paths that the container mounts are those of the test, and a container that
 * drops all capabilities has none.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { KubernetesApi, KubernetesObject } from './kubernetes-api.js';

export interface JobOptions {
  /** For each volume of the pod, by its name and the node's: where the container's directory is. */
  place(volume: string, node: string): string;
  /** The socket of the plugin on a node. */
  endpoint(node: string): string;
  /** What takes the place of the program of the image. */
  program: string;
  path: string;
}

const PROGRAM = '/opt/blockdelta/bin/blockdelta';
const WITHOUT_RIGHTS = [
  'setpriv',
  '--no-new-privs',
  '--inh-caps=-all',
  '--ambient-caps=-all',
  '--bounding-set=-all',
  '--',
];

export class KubernetesJobs {
  readonly #running = new Map<string, ChildProcess>();
  readonly #logs = new Map<string, string>();
  /** The commands that were started, with the paths of the containers. */
  readonly commands: string[][] = [];

  constructor(
    private readonly api: KubernetesApi,
    private readonly options: JobOptions,
  ) {}

  readonly logOf = ({ metadata }: KubernetesObject): string => this.#logs.get(metadata.uid) ?? '';

  /** Called after each change of an object. */
  look(): void {
    for (const job of this.api.list('jobs')) {
      if (job.metadata.deletionTimestamp !== undefined) this.#end(job);
      else if (job.status.startTime === undefined) this.#start(job);
    }
  }

  #start(job: KubernetesObject): void {
    const { name, namespace, uid } = job.metadata;
    const labels = { 'batch.kubernetes.io/controller-uid': uid };
    // Now, since each change makes look() look again.
    const startTime = new Date().toISOString();
    this.api.patch('jobs', job, { status: { startTime }, spec: { selector: { matchLabels: labels } } });
    const { spec } = job.spec.template;
    const [container] = spec.containers;
    const pod = this.api.create('pods', {
      metadata: { name: `${name}-pod`, namespace, labels },
      spec: { containers: [{ name: container.name }] },
      status: { phase: 'Running' },
    });
    const child = this.#spawn(spec);
    this.#running.set(uid, child);
    let log = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        log += text;
        this.#logs.set(pod.metadata.uid, log);
      });
    }
    child.once('close', (code) => {
      this.#running.delete(uid);
      this.api.patch('pods', pod, { status: { phase: code === 0 ? 'Succeeded' : 'Failed' } });
      const types = code === 0 ? ['SuccessCriteriaMet', 'Complete'] : ['FailureTarget', 'Failed'];
      const conditions = types.map((type) => ({ type, status: 'True' }));
      this.api.patch('jobs', job, { status: { conditions } });
    });
  }

  #spawn({ containers: [container], affinity, volumes }: KubernetesObject): ChildProcess {
    const [term] = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms;
    const node: string = term.matchFields[0].values[0];
    const names = new Set(volumes.map(({ name }: KubernetesObject) => name));
    const mounts: readonly KubernetesObject[] = container.volumeMounts;
    const at = new Map(mounts.map(({ name, mountPath }) => [mountPath as string, name as string]));
    for (const name of at.values()) if (!names.has(name)) throw new Error(`there is no volume ${name}`);
    const mounted = new RegExp(`(?<=^|=)(${[...at.keys()].join('|')})(?=/|$)`);
    const placed = (text: string): string =>
      text === 'unix:///csi/csi.sock'
        ? this.options.endpoint(node)
        : text
            .replace(mounted, (path) => this.options.place(at.get(path) ?? '', node))
            .replace(PROGRAM, this.options.program);
    this.commands.push(container.command);
    // tini, which passes on signals.
    const [, , ...command] = container.command as string[];
    const isPrivileged = container.securityContext.privileged === true;
    const [program = '', ...args] = [...(isPrivileged ? [] : WITHOUT_RIGHTS), ...command.map(placed)];
    const given = container.env.map((each: KubernetesObject) => [each.name, placed(each.value)]);
    const env = { PATH: this.options.path, ...Object.fromEntries(given) };
    return spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  }

  /** The Job goes when its pod has ended. */
  #end(job: KubernetesObject): void {
    const { uid, name, namespace } = job.metadata;
    const child = this.#running.get(uid);
    const remove = (): void => {
      const pod = this.api.find('pods', namespace, `${name}-pod`);
      if (pod !== undefined) this.api.delete('pods', pod);
      this.api.patch('jobs', job, { metadata: { finalizers: [] } });
    };
    if (child === undefined) remove();
    else if (child.listenerCount('close') === 1) {
      child.once('close', remove);
      child.kill('SIGTERM');
    }
  }

  /** Kills what runs. */
  stop(): void {
    for (const { pid } of this.#running.values()) if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  }
}
