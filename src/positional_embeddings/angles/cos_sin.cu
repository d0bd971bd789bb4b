// Cosine and sine of exact phases, for kernels element by element. A phase is of 64 bits, in units
// of 2**-64 cycles; products and sums are rounded one by one.
#define TWO_63 9223372036854775808.0
#define TWO_64 18446744073709551616.0
#define TWO_M64 5.421010862427522e-20
// A circle in two parts, the second one what the first one lacks.
#define CIRCLE 6.283185307179586
#define CIRCLE_REST 2.4492935982947064e-16

typedef unsigned long long Phase;

__device__ Phase modulo_2_64(double whole) {
  return whole < 0 ? 0ull - (Phase)-whole : (Phase)whole;
}

// Of `turn + low` cycles, within an eighth of a cycle, and some quadrants. What is rounded off the
// angle is put back by a derivative.
template <typename T>
__device__ void cos_sin_of_turn(double turn, double low, unsigned quadrant, double factor,
                                T& cosine, T& sine) {
  const double angle = CIRCLE * turn;
  const double left = fma(CIRCLE, turn, -angle) + (CIRCLE_REST * turn + CIRCLE * low);
  const double near_cos = cos(angle), near_sin = sin(angle);
  const double c = factor * (near_cos - near_sin * left), s = factor * (near_sin + near_cos * left);
  const double turned_cos = quadrant & 1 ? s : c, turned_sin = quadrant & 1 ? c : s;
  cosine = quadrant == 1 || quadrant == 2 ? -turned_cos : turned_cos;
  sine = quadrant >= 2 ? -turned_sin : turned_sin;
}

// Of a phase, and `low` units more.
template <typename T>
__device__ void cos_sin_of_phase(Phase phase, double low, double factor, T& cosine, T& sine) {
  const unsigned quadrant = (phase + (1ull << 61)) >> 62;
  const long long from_quadrant = phase - ((Phase)quadrant << 62);
  const double high = (double)from_quadrant;
  low += (double)(from_quadrant - (long long)high) * TWO_M64;
  const double turn = high * TWO_M64 + low;
  cos_sin_of_turn(turn, low - (turn - high * TWO_M64), quadrant, factor, cosine, sine);
}

// The frequency has 64 bits behind the point, in two whole numbers of 32, and a rounded rest. What
// is added are units of 2**-64 cycles, and what is less, in cycles.
template <typename Integer>
__device__ void add_integer(Integer position, double bits, double more_bits, double rest,
                            Phase& phase, double& low) {
  const Phase frequency = (modulo_2_64(bits) << 32) + modulo_2_64(more_bits);
  phase += (Phase)position * frequency;
  low += (double)position * rest;
}

// Parts of a position are multiplied in twice the digits, by the rounded frequency in cycles and
// what it leaves over.
__device__ void add_real(double position, double bits, double more_bits, double rest,
                         double cycles, double cycles_rest, Phase& phase, double& low) {
  const Phase frequency = (modulo_2_64(bits) << 32) + modulo_2_64(more_bits);
  const double whole = fabs(position) <= TWO_63 ? trunc(position) : nan("");
  const double part = position - whole;
  const double product = part * cycles;
  const double fixed = (product - rint(product)) * TWO_64;
  double small = whole * rest + (fma(part, cycles, -product) + part * cycles_rest);
  small += (fixed - rint(fixed)) * TWO_M64;
  phase += modulo_2_64(whole) * frequency + modulo_2_64(rint(fixed));
  low += small;
}

template <typename Integer, typename T>
__device__ void cos_sin_of_integer(Integer position, double bits, double more_bits, double rest,
                                   double factor, T& cosine, T& sine) {
  Phase phase = 0;
  double low = 0;
  add_integer(position, bits, more_bits, rest, phase, low);
  cos_sin_of_phase(phase, low, factor, cosine, sine);
}

template <typename T>
__device__ void cos_sin_of_real(double position, double bits, double more_bits, double rest,
                                double cycles, double cycles_rest, double factor, T& cosine,
                                T& sine) {
  Phase phase = 0;
  double low = 0;
  add_real(position, bits, more_bits, rest, cycles, cycles_rest, phase, low);
  cos_sin_of_phase(phase, low, factor, cosine, sine);
}

template <typename Integer>
__device__ void add(Integer position, const double* parts, Phase& phase, double& low) {
  add_integer(position, parts[0], parts[1], parts[2], phase, low);
}

__device__ void add(double position, const double* parts, Phase& phase, double& low) {
  add_real(position, parts[0], parts[1], parts[2], parts[3], parts[4], phase, low);
}

// Of the sum of `count` coordinates, `step` numbers apart, each times the frequency of five parts.
// Units of what is less go to the phase, so that it stays small.
template <typename Points, typename T>
__device__ void cos_sin_of_sum(const Points& points, long long first, long long step,
                               const double* parts, long long count, double factor, T& cosine,
                               T& sine) {
  Phase phase = 0;
  double low = 0;
  for (long long i = 0; i < count; ++i) {
    add(points[first + i * step], parts + 5 * i, phase, low);
    const double units = rint(low * TWO_64);
    phase += modulo_2_64(units);
    low -= units * TWO_M64;
  }
  cos_sin_of_phase(phase, low, factor, cosine, sine);
}
