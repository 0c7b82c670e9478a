/** This machine's headless Chromium with one page, driven by Playwright, and what goes wrong on that page. */
import { existsSync } from 'node:fs';
import { test as plainTest, type TestContext } from 'node:test';
import { chromium, type Page } from 'playwright-core';

const PROGRAM = '/usr/bin/chromium';

export const hasBrowser = existsSync(PROGRAM);

/** A test that is skipped where there is no browser. */
export function test(title: string, run: (context: TestContext) => Promise<void>): void {
  const skip = hasBrowser ? false : `${PROGRAM} is not installed: install the package chromium`;
  plainTest(title, { skip }, run);
}

export interface OpenPage {
  page: Page;
  /** Scripts that failed, whatever is on the console, requests to anything but the page. */
  problems: string[];
  close(): Promise<void>;
}

/** An empty page of that size. */
export async function openPage(width: number, height: number): Promise<OpenPage> {
  // A container gives the browser no namespaces of its own, and little shared memory.
  const args = ['--no-sandbox', '--disable-dev-shm-usage'];
  const browser = await chromium.launch({ executablePath: PROGRAM, args, timeout: 0 });
  const page = await browser.newPage({ viewport: { width, height } });
  page.setDefaultTimeout(0);
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => problems.push(message.text()));
  page.on('request', (request) => {
    if (!/^(file|data|about):/.test(request.url())) problems.push(`a request to ${request.url()}`);
  });
  return { page, problems, close: () => browser.close() };
}
