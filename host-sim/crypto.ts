/** Module `crypto`, on Node's. */
import {
  type Cipher,
  createCipheriv,
  createDecipheriv,
  createHash,
  type Decipher,
  pbkdf2Sync,
} from "node:crypto";
import type { Bridge } from "./bridge";

const HASHES = ["SHA1", "SHA224", "SHA256", "SHA384", "SHA512"];
/** Espruino's names of AES modes and what Node calls them, with the size of the key left out. */
const MODES: Record<string, string> = { CBC: "cbc", CFB: "cfb8", CTR: "ctr", ECB: "ecb" };
const BLOCK_BYTES = 16;

/** Returns the module's object. Results are ArrayBuffers; what mbedtls refuses throws an Error with its text. */
export const createCrypto = (bridge: Bridge): object => {
  const { library, functions, fail, bytes } = bridge;
  const buffer = (value: unknown): Buffer => Buffer.from(bytes(value), "latin1");
  const result = (data: Buffer): unknown => library.arrayBuffer(data.toString("latin1"));
  const optionsOf = (options: any): any => (typeof options === "object" && options !== null ? options : {});

  const crypt = (isEncrypting: boolean, message: unknown, key: unknown, given: unknown): unknown => {
    const options = optionsOf(given);
    const mode = options.mode === undefined ? "CBC" : String(options.mode);
    const name = MODES[mode];
    if (!name) return fail("Error", `Unknown Crypto mode ${JSON.stringify(mode)}`);
    const keyBytes = buffer(key);
    if (![16, 24, 32].includes(keyBytes.length)) return fail("Error", "Crypto error: AES - Invalid key length");
    const data = buffer(message);
    const isWhole = data.length % BLOCK_BYTES === 0;
    if (name === "cbc" && !isWhole) return fail("Error", "Crypto error: AES - Invalid data input length");
    const vector = Buffer.alloc(BLOCK_BYTES);
    if (name !== "ctr" && options.iv !== undefined) buffer(options.iv).copy(vector);
    const make = isEncrypting ? createCipheriv : createDecipheriv;
    const cipher: Cipher | Decipher = make(`aes-${keyBytes.length * 8}-${name}`, keyBytes, name === "ecb" ? null : vector);
    cipher.setAutoPadding(false);
    // Of ECB's input only whole blocks count; the rest of the result stays zero.
    const input = name === "ecb" ? data.subarray(0, data.length - (data.length % BLOCK_BYTES)) : data;
    const output = Buffer.alloc(data.length);
    Buffer.concat([cipher.update(input), cipher.final()]).copy(output);
    return result(output);
  };

  const AES = library.builtIn(library.newObject());
  functions(AES, {
    encrypt: (message, key, options) => crypt(true, message, key, options),
    decrypt: (message, key, options) => crypt(false, message, key, options),
  });
  const crypto = library.builtIn(library.newObject());
  for (const name of HASHES)
    functions(crypto, { [name]: (message) => result(createHash(name.toLowerCase()).update(buffer(message)).digest()) });
  functions(crypto, {
    PBKDF2(passphrase: unknown, salt: unknown, given?: unknown) {
      const options = optionsOf(given);
      const words = library.toInteger(options.keySize);
      const iterations = Math.max(1, library.toInteger(options.iterations));
      const hasher = options.hasher === undefined ? "SHA1" : options.hasher;
      if (!HASHES.includes(hasher)) return fail("Error", `Unknown Hasher ${JSON.stringify(String(hasher))}`);
      const length = (words > 0 ? words : 4) * 4;
      return result(pbkdf2Sync(buffer(passphrase), buffer(salt), iterations, length, String(hasher).toLowerCase()));
    },
  });
  library.method(crypto, "AES", AES);
  return crypto;
};
