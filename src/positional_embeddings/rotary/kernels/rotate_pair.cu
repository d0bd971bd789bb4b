// Rotates the features of a pair, in the type of the angles. Both are read before they are written.
template <typename T, typename C>
__device__ void rotate_pair(T first, T second, C cos, C sin, T& rotated_first, T& rotated_second) {
  const C a = static_cast<C>(first), b = static_cast<C>(second);
  rotated_first = static_cast<T>(a * cos - b * sin);
  rotated_second = static_cast<T>(b * cos + a * sin);
}
