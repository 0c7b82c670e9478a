/**
 * Suite stream: what a server spends on a list that costs nothing to find. The list is generated, so that the rows
 * measure the way from the scan to the socket alone, beside a C++ gRPC server, a plain socket and a router.
 */
import type { Curve, Row } from '../../../src/tools/bench/row.js';
import type { Settings, Suite } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { costRows } from '../streams/cost-rows.js';
import { streamCurves } from '../streams/curves.js';
import { firstMessageRows } from '../streams/first-message-rows.js';
import { loopDelayRow } from '../streams/loop-delay-row.js';
import { memoryRows } from '../streams/memory-rows.js';
import { routerRow } from '../streams/router-row.js';

export const suite: Suite = {
  name: 'stream',
  describes: 'the server alone, on a generated list: CPU, throughput, memory, first message, event loop, router',

  async run(settings: Settings): Promise<Row[]> {
    const workspace = Workspace.make(settings, 'stream');
    return [
      ...(await costRows(settings, workspace)),
      ...(await memoryRows(settings, workspace)),
      ...(await firstMessageRows(settings, workspace)),
      await loopDelayRow(settings, workspace),
      await routerRow(settings, workspace),
    ];
  },

  async curves(settings: Settings): Promise<Curve[]> {
    return streamCurves(settings, Workspace.make(settings, 'stream-curves'));
  },
};
