# Numeric Python: loops, recursion, branches, tuples. No `**` of floats: RustPython expands it into its own exp and log, which is
# 200,000 lines of CLIF and takes numbers apart by their bits. No recursion over two arguments: it passes them in reverse.


def horner(x: float, n: int) -> float:
    total = 0.0
    sign = 1.0
    while n > 0:
        total = (total + sign / n) * x
        sign = 0.0 - sign
        n = n - 1
    return total


def cube_root(a: float) -> float:
    x = a
    step = 1.0
    while step * step > 1e-20:
        step = (x - a / (x * x)) / 3.0
        x = x - step
    return x


def factorial(x: float) -> float:
    if x < 1.0:
        return 1.0 - 0.42 * x * (1.0 - x)
    return x * factorial(x - 1.0)


def huber(x: float, limit: float) -> float:
    if x < 0.0:
        x = 0.0 - x
    if x <= limit:
        return x * x / 2.0
    return limit * (x - limit / 2.0)


def compound(principal: float, rate: float, years: int) -> float:
    growth = 1.0
    base = 1.0 + rate
    while years > 0:
        if years & 1 == 1:
            growth = growth * base
        base = base * base
        years = years >> 1
    return principal * growth


def python_orbit(cx: float, cy: float, turns: int) -> float:
    x, y = 0.0, 0.0
    while turns > 0 and x * x + y * y < 4.0:
        x, y = x * x - y * y + cx, 2.0 * x * y + cy
        turns -= 1
    return x * x + y * y
