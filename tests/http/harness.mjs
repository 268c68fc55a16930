// test(name, body) and run(): each test alone, a line for each, exit status 1 when one fails.
const tests = [];
export const test = (name, body) => tests.push({ name, body });
export async function run() {
  let failed = 0;
  for (const { name, body } of tests) {
    try {
      await body();
      console.log(`ok   ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}: ${error.stack}`);
    }
  }
  console.log(`${tests.length - failed} passed, ${failed} failed`);
  process.exit(failed === 0 && tests.length > 0 ? 0 : 1);
}
