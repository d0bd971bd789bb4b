// The steps of `_harmonics` in cyclic.py, for one number and one harmonic; it follows cos_sin.cu.
__device__ double low_part(double x) { return x; }
__device__ double high_part(double x) { return 0; }
template <typename Integer> __device__ double low_part(Integer x) {
  return (double)(x % 4294967296ll);
}
template <typename Integer> __device__ double high_part(Integer x) {
  return (double)(x - x % 4294967296ll);
}

__device__ double centred(double distance, double period) {
  distance = distance > period / 2 ? distance - period : distance;
  return distance < -period / 2 ? distance + period : distance;
}

template <typename X, typename T>
__device__ void cos_sin_of_harmonic(X x, double period, double unit, double upper, double lower,
                                    double harmonic, T& cosine, T& sine) {
  const double of_low = centred(fmod(low_part(x), period), period);
  const double of_high = centred(fmod(high_part(x), period), period);
  const double reduced = centred(of_low + of_high, period);
  const double a = rint(reduced / unit) * unit, b = reduced - a;
  const double quarters = rint(harmonic * reduced / (period / 4));
  const double rest = (harmonic * a - quarters * upper) + (harmonic * b - quarters * lower);
  cos_sin_of_turn(rest / period, 0, (int)quarters & 3, 1, cosine, sine);
  cosine += 0.0;  // no negative zeros
  sine += 0.0;
}
