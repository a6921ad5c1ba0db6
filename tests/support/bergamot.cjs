// Translates lines with Bergamot's engine, compiled to WebAssembly, one after another.
//
//     node bergamot.cjs ENGINE MODEL LIST VOCABULARY [VOCABULARY] < lines.json > outputs.json
//
// ENGINE is the folder worker/ of the package @browsermt/bergamot-translator; LIST is "" for none.
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [engine, model, list, ...vocabularies] = process.argv.slice(2);
const CONFIG = {
  'beam-size': 1,
  'normalize': 1.0,
  'word-penalty': 0,
  'max-length-break': 128,
  'ssplit-mode': 'sentence',
  'max-length-factor': 2.0,
  'mini-batch-words': 1024,
  'workspace': 128,
  'skip-cost': true,
  'cpu-threads': 0,
  'quiet': true,
  'quiet-translation': true,
  'gemm-precision': 'int8shiftAlphaAll',
  'alignment': 'soft',
};
// The products in 8 bits, which Firefox replaces with its own; the engine has all of them, too.
const PRODUCTS = {
  int8_prepare_a: 'int8PrepareAFallback',
  int8_prepare_b: 'int8PrepareBFallback',
  int8_prepare_b_from_transposed: 'int8PrepareBFromTransposedFallback',
  int8_prepare_b_from_quantized_transposed: 'int8PrepareBFromQuantizedTransposedFallback',
  int8_prepare_bias: 'int8PrepareBiasFallback',
  int8_multiply_and_add_bias: 'int8MultiplyAndAddBiasFallback',
  int8_select_columns_of_b: 'int8SelectColumnsOfBFallback',
};

function translate(module) {
  const memory = (file, alignment) => {
    const bytes = file ? fs.readFileSync(file) : new Uint8Array();
    const found = new module.AlignedMemory(bytes.length, alignment);
    found.getByteArrayView().set(bytes);
    return found;
  };
  const spms = new module.AlignedMemoryList();
  for (const file of vocabularies) spms.push_back(memory(file, 64));
  const settings = Object.entries(CONFIG).map(([name, value]) => `${name}: ${value}\n`).join('');
  const loaded = new module.TranslationModel(
    settings, memory(model, 256), memory(list, 64), spms, null);
  const service = new module.BlockingService({cacheSize: 0});
  const outputs = JSON.parse(fs.readFileSync(0, 'utf-8')).map((line) => {
    const input = new module.VectorString();
    input.push_back(line);
    const options = new module.VectorResponseOptions();
    options.push_back({alignment: false, html: false, qualityScores: false});
    return service.translate(loaded, input, options).get(0).getTranslatedText();
  });
  fs.writeSync(1, JSON.stringify(outputs));
}

const script = path.join(engine, 'bergamot-translator-worker.js');
const compiled = new WebAssembly.Module(fs.readFileSync(script.replace(/js$/, 'wasm')));
global.Module = {
  instantiateWasm: (imports, accept) => {
    const own = Object.entries(PRODUCTS).map(
      ([name, one]) => [name, (...values) => Module.asm[one](...values)]);
    const instance = new WebAssembly.Instance(
      compiled, {...imports, wasm_gemm: Object.fromEntries(own)});
    accept(instance);
    return instance.exports;
  },
  onRuntimeInitialized: () => translate(Module),
};
global.require = require;
global.__dirname = engine;
vm.runInThisContext(fs.readFileSync(script, 'utf-8'));
