/**
 * Changes that make the plugin lose data, each with the plain test that notices: the proof that these tests can fail.
 * scripts/test-mutations.mjs applies them.
 */
import { DURABLE } from './durable.js';
import { LISTS } from './lists.js';
import type { Mutation } from './mutation.js';
import { THIN } from './thin.js';

export const MUTATIONS: readonly Mutation[] = [...LISTS, ...THIN, ...DURABLE];
