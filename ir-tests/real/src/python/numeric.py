# Numeric Python: loops, recursion, powers. RustPython expands `**` of floats into branches and its own series for exp and log,
# with the low half of a double-double carried along.


def horner(x: float, n: int) -> float:
    total = 0.0
    sign = 1.0
    while n > 0:
        total = (total + sign / n) * x
        sign = -sign
        n = n - 1
    return total


def cube_root(a: float) -> float:
    x = a
    step = 1.0
    while step * step > 1e-20:
        step = (x - a / (x * x)) / 3.0
        x = x - step
    return x


def chebyshev(n: int, x: float) -> float:
    if n == 0:
        return 1.0
    if n == 1:
        return x
    return 2.0 * x * chebyshev(n - 1, x) - chebyshev(n - 2, x)


def huber(x: float, limit: float) -> float:
    if x < 0.0:
        x = -x
    if x <= limit:
        return x * x / 2.0
    return limit * (x - limit / 2.0)


def compound(principal: float, rate: float, years: float) -> float:
    return principal * (1.0 + rate) ** years
