/* The fast Fourier transform, radix two, in place, and two losses on top of it. Compiled once with doubles and once,
 * with SINGLE defined, with floats. Complex numbers are pairs. At most 256 points: the losses work in a static array.
 */
#include "program.h"

#ifdef SINGLE
typedef float real;
#define SIN sinf
#define COS cosf
#else
typedef double real;
#define SIN sin
#define COS cos
#endif

enum { MOST = 256 };

static real work[2 * MOST];

/* The bits of an index in reverse order say where its value goes. */
static void shuffle(int n, real *x) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j)
            for (int part = 0; part < 2; part++) {
                real kept = x[2 * i + part];
                x[2 * i + part] = x[2 * j + part];
                x[2 * j + part] = kept;
            }
    }
}

/* x[n][2], n a power of two. sign = -1 transforms forward, +1 back (without the factor 1/n). */
EXPORT(fft)
void fft(int n, int sign, real *x) {
    shuffle(n, x);
    for (int size = 2; size <= n; size *= 2) {
        real step = sign * 2 * (real)PI / size;
        for (int k = 0; k < size / 2; k++) {
            real c = COS(step * k), s = SIN(step * k);
            for (int i = k; i < n; i += size) {
                real *a = x + 2 * i, *b = a + size;
                real re = c * b[0] - s * b[1], im = c * b[1] + s * b[0];
                b[0] = a[0] - re;
                b[1] = a[1] - im;
                a[0] += re;
                a[1] += im;
            }
        }
    }
}

/* Half the squared difference between the power spectrum of a real signal and a target, both of n numbers. */
EXPORT(spectrum_loss)
real spectrum_loss(int n, const real *signal, const real *target) {
    if (n > MOST)
        __builtin_trap();
    for (int i = 0; i < n; i++) {
        work[2 * i] = signal[i];
        work[2 * i + 1] = 0;
    }
    fft(n, -1, work);
    real loss = 0;
    for (int i = 0; i < n; i++) {
        real power = (work[2 * i] * work[2 * i] + work[2 * i + 1] * work[2 * i + 1]) / n;
        loss += (power - target[i]) * (power - target[i]);
    }
    return loss / 2;
}

/* Half the squared difference between a signal, filtered by gains on its spectrum, and what is wanted. */
EXPORT(filter_loss)
real filter_loss(int n, const real *signal, const real *gains, const real *wanted) {
    if (n > MOST)
        __builtin_trap();
    for (int i = 0; i < n; i++) {
        work[2 * i] = signal[i];
        work[2 * i + 1] = 0;
    }
    fft(n, -1, work);
    for (int i = 0; i < n; i++) {
        work[2 * i] *= gains[i];
        work[2 * i + 1] *= gains[i];
    }
    fft(n, 1, work);
    real loss = 0;
    for (int i = 0; i < n; i++) {
        real error = work[2 * i] / n - wanted[i];
        loss += error * error;
    }
    return loss / 2;
}
