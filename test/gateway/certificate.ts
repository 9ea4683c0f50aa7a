import { generateKeyPairSync, sign } from "node:crypto";

/** One element of DER: its tag, the length of what is in it, and that. */
function der(tag: number, ...parts: (Buffer | string)[]): Buffer {
  const content = Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : part)));
  const size = content.length;
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.of(tag, ...length), content]);
}

const SEQUENCE = 0x30;
const ALGORITHMS = {
  ec: der(SEQUENCE, der(0x06, Buffer.from("2a8648ce3d040302", "hex"))),
  rsa: der(SEQUENCE, der(0x06, Buffer.from("2a864886f70d01010b", "hex")), der(0x05)),
};

/** A certificate for 127.0.0.1 that nobody but itself vouches for, and its key. Espruino's TLS knows RSA keys only. */
export function selfSignedCertificate(kind: "ec" | "rsa" = "ec"): { key: string; cert: string } {
  const { privateKey, publicKey } =
    kind === "ec" ? generateKeyPairSync("ec", { namedCurve: "P-256" }) : generateKeyPairSync("rsa", { modulusLength: 2048 });
  const algorithm = ALGORITHMS[kind];
  const name = der(SEQUENCE, der(0x31, der(SEQUENCE, der(0x06, "\x55\x04\x03"), der(0x0c, "127.0.0.1"))));
  const validity = der(SEQUENCE, der(0x17, "200101000000Z"), der(0x17, "491231235959Z"));
  const alternative = der(SEQUENCE, der(0x06, "\x55\x1d\x11"), der(0x04, der(SEQUENCE, der(0x87, "\x7f\x00\x00\x01"))));
  const signed = der(
    SEQUENCE,
    der(0xa0, der(0x02, "\x02")),
    der(0x02, "\x01"),
    algorithm,
    name,
    validity,
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, der(SEQUENCE, alternative)),
  );
  const signature = sign("sha256", signed, privateKey);
  const whole = der(SEQUENCE, signed, algorithm, der(0x03, "\x00", signature));
  const lines = whole.toString("base64").replace(/.{64}/g, "$&\n");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
}
