/* Kepler's equation E - e sin E = m by Newton's method: a loop whose number of turns depends on the data. */
#include "real.h"

EXPORT real kepler(real e, real m) {
    real anomaly = e < (real)0.8 ? m : (real)3.25;
    for (int i = 0; i < 50; i++) {
        real step = (anomaly - e * R(sin)(anomaly) - m) / (1 - e * R(cos)(anomaly));
        anomaly -= step;
        if (__builtin_fabs((double)step) < 1e-10)
            break;
    }
    return anomaly;
}

/* Distance from the focus after following the orbit, for n mean anomalies kept in memory; the anomalies replace them. */
EXPORT real orbit(real a, real e, int n, real *m) {
    real total = 0;
    for (int i = 0; i < n; i++) {
        m[i] = kepler(e, m[i]);
        total += a * (1 - e * R(cos)(m[i]));
    }
    return total;
}
