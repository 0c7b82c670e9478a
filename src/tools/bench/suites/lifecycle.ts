/** Suite lifecycle: measures the cost of each call of a volume's life, through the socket of any driver. */
import { measuredDriver } from '../measured-driver.js';
import { mountRow } from '../mount-row.js';
import { operationRows } from '../operation-rows.js';
import type { Row } from '../row.js';
import type { Settings, Suite } from '../suite.js';

export const suite: Suite = {
  name: 'lifecycle',
  describes: 'the calls of a volume at 1, 4 and 16 clients, and a mount beside a shell script (root)',

  async run(settings: Settings): Promise<Row[]> {
    const measured = await measuredDriver(settings, 'lifecycle');
    return [
      await mountRow(settings, measured, measured.workspace.directory),
      ...(await operationRows(settings, [measured])),
    ];
  },
};
