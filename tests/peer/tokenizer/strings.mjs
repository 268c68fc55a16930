// Makes texts that try a tokenizer: the same list for the same seed.

/// A small generator of numbers below n, from a seed (a 32-bit mix of a counter).
function generator(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x9e3779b9) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    return ((x ^ (x >>> 16)) >>> 0) % n;
  };
}

const words = ('the quick brown fox jumps over lazy dogs while engineers measure throughput latency and memory of ' +
  'very large models running on small machines Größe naïve café привет мир γειά σου người Việt don\'t we\'ll I\'M ' +
  'they\'ve HelloWorld snake_case kebab-case ALLCAPS x86_64 e.g. foo() bar[] {baz}').split(' ');
const code = ['int main() {\n\treturn 0;\n}\n', 'def f(x):\n    return x ** 2\n', '#include <vector>', 'a += b[i++];',
  '{"key": [1, 2.5, null]}', '<div class="x">&amp;</div>', 'SELECT * FROM t WHERE id = 1;', '//////', '/* note */',
  'https://example.com/a?b=c&d=%20', 'printf("%5.2f\\n", x);', '```json\n{}\n```', '\t\tif (x) {\r\n\t\t}\r\n'];
const blanks = [' ', ' ', ' ', '\t', '\n', '\r', '\r\n', '\u000b', '\u000c', '\u0085', '\u00a0', '\u1680', '\u2003', '\u2009', '\u2028',
  '\u2029', '\u202f', '\u205f', '\u3000', '\u200b', '\u180e', '\u001c', '\ufeff'];
const scripts = [[0x4e00, 0x9fa5], [0x3041, 0x3096], [0x30a1, 0x30fa], [0xac00, 0xd7a3], [0x0905, 0x0939], [0x0e01, 0x0e30],
  [0x0621, 0x064a], [0x05d0, 0x05ea], [0x0410, 0x044f], [0x0391, 0x03a1], [0x20000, 0x20100], [0x10a0, 0x10c5],
  [0x1100, 0x1112], [0x1161, 0x1175], [0x11a8, 0x11c2], [0x3105, 0x312f], [0x3131, 0x318e], [0x0985, 0x09a8], [0x1e00, 0x1eff],
  [0x1f00, 0x1f15], [0xf900, 0xfa0d], [0xac00, 0xd7a3]];
const emoji = ['😀', '👍🏽', '👩‍👩‍👧‍👦', '🇩🇪', '❤️', '1️⃣', '🏴‍☠️', '✨'];
const digits = [...'0123456789', '²', '½', 'Ⅷ', '٣', '५', '①', '𝟘', '〇'];
const marks = ['\u0301', '\u0308', '\u0327', '\u0323', '\u0302', '\u0344', '\u093c', '\u093f', '\u0e34', '\u064e', '\u20dd', '\u0898',
  '\u3099', '\u09be', '\u0345'];
const special = ['<｜begin▁of▁sentence｜>', '<｜end▁of▁sentence｜>', '<｜User｜>', '<｜Assistant｜>', '<｜User', '｜>', '<|User|>',
  '<｜fim▁hole｜>', '<｜tool▁sep｜>', '<think>', '</think>', '<|im_end|>', '<｜', '<<｜User｜>>', '</s>', '<s>',
  '<|im_start|>', '<|endoftext|>', '<|eot_id|>', '<|start_header_id|>', '<|channel|>', '<|message|>', '<|end|>', '<tool_call>',
  '</tool_response>', '<|fim_prefix|>', '[INST]', '<|im_', 'end|>'];
const contractions = ["'s", "'S", "'t", "'RE", "'ve", "'m", "'Ll", "'d", "'x", "'ſ", '’s', "''s"];
const punctuation = [...'！…“”‘’—：；，、。〈〉〜〿︰﹏·'];
const odd = ['\u0000', '\u0001', '\u007f', '\u00ad', '\ue000', '\u0378', '\u{10ffff}', '。', '、', '「', '“', '”', '—', '…', '€', '∑',
  'ſ', 'ǅ', 'ª', 'ʰ', 'ﬁ', 'Å', 'ö', 'ß', '々', '_', '\'', '"', '!', '?', '.', ',', ';', '$', '#', '\\', '`', '~', '^'];

/// `count` texts.
export function makeStrings(count, seed) {
  const below = generator(seed);
  const pick = (list) => list[below(list.length)];
  const many = (max, make, joint = '') => Array.from({ length: 1 + below(max) }, make).join(joint);
  const letters = () => {
    const [first, last] = pick(scripts);
    return many(8, () => String.fromCodePoint(first + below(last - first + 1)));
  };
  const kinds = [
    () => many(20, () => pick(words), ' '),
    () => many(6, () => pick(code), pick(['', '\n', ' '])),
    () => many(14, () => pick(digits)),
    () => many(12, () => pick(blanks)),
    () => many(6, letters, pick(['', ' '])),
    () => many(5, () => pick(emoji), pick(['', ' '])),
    () => many(8, () => pick(words)[0] + many(2, () => pick(marks))),
    () => many(6, () => pick(special), pick(['', ' ', 'a'])),
    () => many(12, () => pick(odd)),
    () => pick(words).repeat(1 + below(120)),
    () => many(6, () => pick(words) + pick(contractions), pick(['', ' '])),
    () => many(8, () => pick([() => pick(punctuation), letters])()),
    () => many(4, () => pick([...blanks, '1', '/', '\n/'])).repeat(1 + below(40)),
    () => many(6, () => pick(['Hello', 'WORLD', 'iPhone', 'HTTPServer', 'ǅungla', 'ΑΒγδ', 'ПрИвЕт', 'x86']), ''),
  ];
  const mixture = () => many(10, () => (below(3) === 0 ? pick(blanks) : pick(kinds.filter((_, i) => i !== 9))()));
  return Array.from({ length: count }, () => (below(2) === 0 ? mixture() : pick(kinds)()));
}
