/** Holds docs/metrics.md, the alert rules and the dashboard of the chart against the metrics that exist. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { parse } from 'yaml';
import { packagePath } from '../../../src/base/package-root.js';
import { PluginMetrics } from '../../../src/driver/metrics/plugin-metrics.js';
import { MAX_VOLUMES } from '../../../src/driver/metrics/storage-metrics.js';
import { RouterMetrics } from '../../../src/router/router-metrics.js';
import { BackupMetrics } from '../../../src/tools/backup/backup-metrics.js';
import { checkoutText } from '../../support/checkout-text.js';
import { NO_PROMETHEUS, prometheusProgram } from '../../support/prometheus.js';

const RULES = 'deploy/helm/blockdelta/files/alerts.yaml';
const DASHBOARD = 'deploy/helm/blockdelta/files/dashboard.json';
const UNIT_TESTS = 'test/unit/deploy/prometheus/alerts.test.yaml';

/** Those that `blockdelta serve`, `blockdelta route` and `blockdelta backup` have, by their own registries. */
function existingMetrics() {
  const metrics = [new PluginMetrics({ showsVolumes: true }), new RouterMetrics(), new BackupMetrics()];
  const all = metrics.flatMap(({ registry }) => registry.getMetricsAsArray());
  const byName = new Map(all.map((metric) => [(metric as unknown as { name: string }).name, metric]));
  return [...byName.values()].map((metric) => {
    // prom-client's types lack what every metric has.
    const { name, labelNames } = metric as unknown as { name: string; labelNames: readonly string[] };
    return { name, type: metric.constructor.name.toLowerCase(), labels: labelNames };
  });
}

const reference = checkoutText('docs/metrics.md');

test('every metric has a row in a table of docs/metrics.md', () => {
  const missing = existingMetrics().filter(({ name }) => !reference.includes(`\n| \`${name}\` |`));
  assert.deepEqual(missing, [], 'let the words of a mark for scripts/render-docs match it');
});

test('docs/metrics.md names the number of volumes that have metrics of their own', () => {
  assert.ok(reference.includes(`The ${MAX_VOLUMES} oldest volumes`));
});

test('names follow the conventions of Prometheus', () => {
  for (const { name, type } of existingMetrics()) {
    assert.match(name, /^(blockdelta|process|nodejs)_[a-z][a-z_]*$/);
    assert.equal(name.endsWith('_total'), type === 'counter', name);
    if (type === 'histogram') assert.match(name, /_seconds$/);
  }
});

interface Rule {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook_url: string };
}

interface Dashboard {
  panels: { title: string; targets?: { expr: string }[] }[];
  templating: { list: { name: string; query: string | { query: string } }[] };
}

/** A query as text, and where it stands. */
interface Query {
  where: string;
  text: string;
}

/** What a query reads: the name and the labels it selects by, of each metric. */
interface Selection {
  metric: string;
  labels: string[];
}

/** The labels that a query groups or joins by. */
function groupings({ text }: Query): string[] {
  const found = text.matchAll(/\b(?:by|without|on|ignoring|group_left|group_right) \(([^)]*)\)/g);
  return [...found].flatMap(([, labels = '']) => labels.split(',').map((label) => label.trim()));
}

/** The metrics in a query that look like those of blockdelta or of its process. */
function selections({ text }: Query): Selection[] {
  const found = text.matchAll(/\b((?:blockdelta|process|nodejs)_[a-z0-9_]+)\s*(?:\{([^}]*)\})?/g);
  return [...found].map(([, metric = '', matchers = '']) => ({
    metric,
    labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
  }));
}

function rules(): Rule[] {
  const { groups } = parse(checkoutText(RULES)) as { groups: { rules: Rule[] }[] };
  return groups.flatMap((group) => group.rules);
}

function queries(): Query[] {
  const { panels, templating } = JSON.parse(checkoutText(DASHBOARD)) as Dashboard;
  return [
    ...rules().map(({ alert, expr }) => ({ where: alert, text: expr })),
    ...panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => ({ where: `panel '${title}'`, text: expr })),
    ),
    ...templating.list.map(({ name, query }) => ({
      where: `variable ${name}`,
      text: typeof query === 'string' ? query : query.query,
    })),
  ];
}

/** The labels of each series: those of its metric, and what Prometheus adds. */
function existingSeries(): Map<string, Set<string>> {
  const series = new Map<string, Set<string>>();
  // kube-state-metrics has this one.
  series.set('kube_daemonset_status_number_unavailable', new Set(['namespace', 'daemonset']));
  for (const { name, type, labels } of existingMetrics()) {
    const all = ['instance', 'job', ...labels];
    const names = type === 'histogram' ? [`${name}_sum`, `${name}_count`] : [name];
    for (const one of names) series.set(one, new Set(all));
    if (type === 'histogram') series.set(`${name}_bucket`, new Set([...all, 'le']));
  }
  return series;
}

test('every query of the rules and the dashboard reads metrics and labels that exist', () => {
  const series = existingSeries();
  let metrics = 0;
  for (const query of queries()) {
    const read = selections(query).flatMap(({ metric }) => [...(series.get(metric) ?? [])]);
    const absent = groupings(query).filter((label) => !read.includes(label));
    assert.deepEqual(absent, [], `${query.where}: no metric in it has this label`);
    for (const { metric, labels } of selections(query)) {
      metrics += 1;
      const known = series.get(metric);
      assert.ok(known, `${query.where}: there is no ${metric}`);
      const unknown = labels.filter((label) => !known.has(label));
      assert.deepEqual(unknown, [], `${query.where}: ${metric} has no such label`);
    }
  }
  assert.ok(metrics > 60);
});

test('the texts of an alert use labels that its series have', () => {
  const series = existingSeries();
  for (const { alert, expr, annotations } of rules()) {
    const query = { where: alert, text: expr };
    // What is grouped has the labels of the group alone.
    const [, grouped] = /\bby \(([^)]*)\)/.exec(expr) ?? [];
    const known =
      grouped?.split(',').map((label) => label.trim()) ??
      selections(query).flatMap(({ metric }) => [...(series.get(metric) ?? [])]);
    for (const [, label = ''] of annotations.summary.matchAll(/\$labels\.(\w+)/g)) {
      assert.ok(label === 'instance' || known.includes(label), `${alert}: ${label}`);
    }
  }
});

test('every alert has a severity, a description, and a paragraph in docs/alerts.md that its runbook_url names', () => {
  const headings = [...checkoutText('docs/alerts.md').matchAll(/^## (Blockdelta\w+)$/gm)].map(([, h]) => h);
  assert.deepEqual(
    headings,
    [...rules()].map(({ alert }) => alert).sort((a, b) => headings.indexOf(a) - headings.indexOf(b)),
  );
  for (const { alert, labels, annotations } of rules()) {
    assert.ok(['info', 'warning', 'critical'].includes(labels.severity), alert);
    assert.equal(annotations.runbook_url, `/alerts.html#${alert.toLowerCase()}`);
    assert.match(annotations.description, /^Check: \S/, alert);
    // Its series are of the cluster, not of a node.
    if (alert !== 'BlockdeltaNodeMissing') assert.match(annotations.summary, /\{\{ \$labels\.instance \}\}/, alert);
  }
  for (const { alert, labels, for: after = '0m' } of rules()) {
    const row = `| [${alert}](#${alert.toLowerCase()}) | ${labels.severity} | ${after} | `;
    assert.ok(checkoutText('docs/alerts.md').includes(row), row);
  }
  const paragraphs = checkoutText('docs/alerts.md').split(/^## /m).slice(1);
  for (const paragraph of paragraphs) {
    assert.match(paragraph, /^\w+\n\n.+\n\nCheck: .+\n\nRemedy: .+/s, paragraph.split('\n')[0]);
  }
});

test('the unit tests of the rules make every alert fire', () => {
  const text = checkoutText(UNIT_TESTS);
  for (const { alert } of rules()) assert.ok(text.includes(`alertname="${alert}"`), alert);
});

const promtool = prometheusProgram('promtool');
const skip = promtool === null ? NO_PROMETHEUS : false;

test('promtool accepts the rules, and their unit tests pass', { skip }, () => {
  for (const args of [
    ['check', 'rules', packagePath(RULES)],
    ['test', 'rules', packagePath(UNIT_TESTS)],
  ]) {
    const { status, stdout, stderr } = spawnSync(promtool as string, args, { encoding: 'utf8' });
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /SUCCESS/);
  }
});
