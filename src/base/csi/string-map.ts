/** A map of strings, as parameters, contexts and topology segments are. */
export type StringMap = Readonly<Record<string, string>>;
