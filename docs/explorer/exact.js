// Logarithms and powers of float64 numbers, correctly rounded.
//
// Math.log and Math.pow may differ from those of other programs in the last bit, and a frequency is
// multiplied by positions of millions. Here they are integers with BITS bits after the point.

const BITS = 256n;
const ONE = 1n << BITS;

/** Return the integers [mantissa, exponent] with x = mantissa * 2 ** exponent, for x above 0. */
function parts(x) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0);
  const exponent = Number(bits >> 52n);
  const fraction = bits & ((1n << 52n) - 1n);
  return exponent ? [fraction | (1n << 52n), exponent - 1075] : [fraction, -1074];
}

function bitLength(n) {
  const hex = n.toString(16);
  return 4 * (hex.length - 1) + (32 - Math.clz32(parseInt(hex[0], 16)));
}

function shift(n, left) {
  return left < 0 ? n >> BigInt(-left) : n << BigInt(left);
}

/** Return the logarithm of a fixed-point number from 1 to 2, by the series of artanh. */
function logOfMantissa(y) {
  const z = ((y - ONE) << BITS) / (y + ONE);
  const square = (z * z) >> BITS;
  let sum = 0n;
  for (let power = z, odd = 1n; power; power = (power * square) >> BITS, odd += 2n) {
    sum += power / odd;
  }
  return 2n * sum;
}

const LN2 = logOfMantissa(2n * ONE);

/** Return the logarithm of x as a fixed-point number. */
function fixedLog(x) {
  const [mantissa, exponent] = parts(x);
  const length = bitLength(mantissa);
  return (
    logOfMantissa(shift(mantissa, Number(BITS) + 1 - length)) + BigInt(exponent + length - 1) * LN2
  );
}

/** Return the integers [mantissa, exponent] of e ** v, for a fixed-point number v. */
function fixedExp(v) {
  let exponent = v / LN2;
  if (exponent * LN2 > v) exponent -= 1n;
  const small = (v - exponent * LN2) >> 16n;
  let sum = 0n;
  for (let term = ONE, n = 1n; term; term = ((term * small) >> BITS) / n, n += 1n) sum += term;
  for (let i = 0; i < 16; i += 1) sum = (sum * sum) >> BITS;
  return [sum, Number(exponent - BITS)];
}

/** Return mantissa * 2 ** exponent as the nearest float64 number. */
function rounded(mantissa, exponent) {
  if (mantissa === 0n) return 0;
  const size = bitLength(mantissa) + exponent; // the number is below 2 ** size
  const drop = Math.max(size - 53, -1074) - exponent;
  if (drop <= 0) return Number(mantissa) * 2 ** exponent;
  const half = 1n << BigInt(drop - 1);
  return Number((mantissa + half) >> BigInt(drop)) * 2 ** (exponent + drop);
}

/** Return a fixed-point number of any sign as a float64 number. */
function fromFixed(v) {
  return v < 0n ? -rounded(-v, -Number(BITS)) : rounded(v, -Number(BITS));
}

/** Return the natural logarithm of x above 0. */
export function log(x) {
  return fromFixed(fixedLog(x));
}

/** Return x ** y for x above 0. */
export function power(x, y) {
  if (y === 0) return 1;
  const [mantissa, exponent] = parts(Math.abs(y));
  const product = shift(fixedLog(x) * mantissa, exponent);
  return rounded(...fixedExp(y < 0 ? -product : product));
}

/** Return `scale` * base ** (-2 i / dim) for i from 0 to dim / 2 - 1. */
export function geometric(dim, base, scale = 1) {
  const logarithm = fixedLog(base);
  const [factor, places] = parts(scale);
  return Float64Array.from({ length: Math.ceil(dim / 2) }, (_, i) => {
    const [mantissa, exponent] = fixedExp((-2n * BigInt(i) * logarithm) / BigInt(dim));
    return rounded(mantissa * factor, exponent + places);
  });
}
