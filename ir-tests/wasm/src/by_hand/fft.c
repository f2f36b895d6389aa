/* Adjoint of filter_loss.
 *
 * The transpose of a transform is the transform with the other sign. The spectrum before the filter is stored (2 n
 * numbers), and so are the cosines and sines that the program computes, which are the same for both signs but for the
 * sign of the sines; the transforms back read them.
 */
#include "adjoint.h"

#include "../fft.c"

static real kept[2 * MOST];

/* Cosines and sines of a transform, in order. */
static real turns[2 * MOST];

/* fft, which writes down what it turns by. */
static void record(int n, int sign, real *x) {
    real *turn = turns;
    shuffle(n, x);
    for (int size = 2; size <= n; size *= 2) {
        real step = sign * 2 * (real)PI / size;
        for (int k = 0; k < size / 2; k++) {
            real c = COS(step * k), s = SIN(step * k);
            *turn++ = c;
            *turn++ = s;
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

/* fft with the turns that are written down (flip = 1) or those of the other sign (-1). */
static void replay(int n, int flip, real *x) {
    const real *turn = turns;
    shuffle(n, x);
    for (int size = 2; size <= n; size *= 2)
        for (int k = 0; k < size / 2; k++) {
            real c = *turn++, s = flip * *turn++;
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

ADJOINT(filter_loss_adjoint)
void filter_loss_adjoint(int n, const real *signal, const real *gains, const real *wanted, real *signal_bar,
                         real *gains_bar, real *wanted_bar, real seed) {
    if (n > MOST)
        __builtin_trap();
    for (int i = 0; i < n; i++) {
        work[2 * i] = signal[i];
        work[2 * i + 1] = 0;
    }
    record(n, -1, work);
    for (int i = 0; i < n; i++)
        for (int part = 0; part < 2; part++) {
            kept[2 * i + part] = work[2 * i + part];
            work[2 * i + part] *= gains[i];
        }
    fft(n, 1, work);
    for (int i = 0; i < n; i++) {
        real error_bar = seed * (work[2 * i] / n - wanted[i]);
        wanted_bar[i] -= error_bar;
        work[2 * i] = error_bar / n;
        work[2 * i + 1] = 0;
    }
    replay(n, 1, work);
    for (int i = 0; i < n; i++) {
        gains_bar[i] += kept[2 * i] * work[2 * i] + kept[2 * i + 1] * work[2 * i + 1];
        work[2 * i] *= gains[i];
        work[2 * i + 1] *= gains[i];
    }
    replay(n, -1, work);
    for (int i = 0; i < n; i++)
        signal_bar[i] += work[2 * i];
}
