/** A strict reader for the small XML documents of tests. Throws if XML is not well-formed. */
import assert from 'node:assert/strict';

export interface XmlElement {
  name: string;
  attributes: Record<string, string>;
  children: XmlElement[];
  text: string;
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
};
const PART = /<\?xml [^?]*\?>|<\/([\w-]+)>|<([\w-]+)((?:\s+[\w-]+="[^"<]*")*)\s*(\/?)>|([^<]+)/y;

export function readXml(source: string): XmlElement {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML forbids
  assert.doesNotMatch(source, /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/);
  assert.ok(source === Buffer.from(source).toString(), 'it is well-formed Unicode');
  const top: XmlElement = { name: '', attributes: {}, children: [], text: '' };
  const open = [top];
  PART.lastIndex = 0;
  while (PART.lastIndex < source.length) {
    const at = PART.lastIndex;
    const match = PART.exec(source);
    assert.ok(match !== null, `not well-formed at: ${source.slice(at, at + 60)}`);
    take(open, match);
  }
  assert.equal(open.length, 1, `<${open.at(-1)?.name}> is not closed`);
  assert.equal(top.text.trim(), '', 'no text outside the root');
  assert.equal(top.children.length, 1, 'one root');
  return top.children[0] as XmlElement;
}

function take(open: XmlElement[], match: RegExpExecArray): void {
  const [, closed, opened, attributes = '', isEmpty, text] = match;
  const current = open.at(-1) as XmlElement;
  if (closed !== undefined) {
    assert.equal(current.name, closed, `</${closed}> closes <${current.name}>`);
    open.pop();
  } else if (opened !== undefined) {
    const element = { name: opened, attributes: attributesOf(attributes), children: [], text: '' };
    current.children.push(element);
    if (isEmpty === '') open.push(element);
  } else if (text !== undefined) {
    assert.ok(!text.includes(']]>'), ']]> is not allowed in text');
    current.text += decoded(text);
  }
}

function attributesOf(text: string): Record<string, string> {
  const pairs = [...text.matchAll(/([\w-]+)="([^"]*)"/g)];
  return Object.fromEntries(pairs.map(([, name = '', value = '']) => [name, decoded(value)]));
}

function decoded(text: string): string {
  return text.replace(/&(#?)([^;&\s]*)(;?)/g, (whole, isNumber, name, end) => {
    assert.equal(end, ';', `a bare & in: ${text}`);
    if (isNumber === '#') return String.fromCodePoint(Number(name));
    const character = ENTITIES[name];
    assert.ok(character !== undefined, `unknown entity ${whole}`);
    return character;
  });
}
