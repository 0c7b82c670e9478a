/** What a mutation is. Knows neither the list nor how it is run (scripts/test-mutations.mjs). */

export interface Mutation {
  /** The row that it breaks: of docs/soundness.md or docs/retained-bases.md. */
  breaks: string;
  file: string;
  /** Occurs exactly once in the file. */
  from: string;
  to: string;
  /** What the mutated code does, and the harm. */
  reason: string;
  /** The plain test that must fail. A parameterized native test is named without its parameters. */
  test: { file: string; name: string };
}
