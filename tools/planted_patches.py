"""Histories in which a fix is planted, with what is true of it: a generator for tools/planted-patches.

Each case is a repository of a few commits. A function as it stands is the fixed side; a fault is put
into it for the side before. The fix comes, is then dressed otherwise (one of VARIANTS), and may be
taken back, at times by which the category of the case is known. Functions come from the files that
are given: C as it is usually laid out (head and braces of a function at the start of a line) and
Python.
"""

import ast
import io
import random
import re
import tokenize

DAY = 86_400
# The window of all cases: collected from START to END, the cutoff is CUTOFF.
START, END, CUTOFF = (d * DAY + 1_600_000_000 for d in (400, 700, 760))
CATEGORIES = (1, 2, 3, 4, 5)
VARIANTS = (
    "verbatim", "reformatted", "comments", "renamed_locals", "moved_function", "renamed_file",
    "refactored", "reverted", "partly_reverted",
)
# Of these the specification asks for less.
HARD = ("renamed_locals", "moved_function", "renamed_file", "refactored")

WORDS_C = {
    "if", "else", "for", "while", "do", "return", "switch", "case", "break", "continue", "goto",
    "default", "sizeof", "int", "char", "long", "unsigned", "signed", "short", "void", "const",
    "static", "struct", "union", "enum", "double", "float", "typedef", "extern", "volatile", "inline",
}


def functions_c(text):
    """Start and end lines, and the name, of functions whose head and braces begin a line."""
    lines, found, at = text.split("\n"), [], 0
    while at < len(lines):
        if lines[at] == "{" and at > 0:
            head = at - 1
            while head > 0 and lines[head - 1][:1] not in ("", "}", "#", "/", " ", "*") and ";" not in lines[head - 1]:
                head -= 1
            end = next((i for i in range(at, len(lines)) if lines[i] == "}"), None)
            name = re.search(r"(\w+)\s*\(", "\n".join(lines[head:at]))
            inside = lines[head:end + 1] if end else []
            if end and name and not any(l.startswith("#") for l in inside):
                found.append((head, end + 1, name.group(1)))
                at = end
        at += 1
    return found


def functions_py(text):
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno] + [d.lineno for d in node.decorator_list]) - 1
            found.append((first, node.end_lineno, node.name))
    return found


TOKEN_C = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d[\w.]*"
    r"|->|\+\+|--|<<=|>>=|<<|>>|[<>=!+\-*/%&|^]=|&&|\|\||\.\.\.|[^\s\w]|\s+", re.S)


def tokens_c(text):
    return TOKEN_C.findall(text)


def tokens_py(text):
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


class C:
    name, path, other = "c", "src/part.c", "src/other.c"
    functions = staticmethod(functions_c)

    @staticmethod
    def reformatted(lines, rng):
        """Two blanks, braces behind the head, one long call over several lines, words apart."""
        out = []
        for line in lines:
            body = line.lstrip()
            deep = (len(line) - len(body)) // 2
            line = " " * deep + body
            if body == "{" and out and out[-1].rstrip().endswith(")"):
                out[-1] += " {"
                continue
            if re.search(r"\w\([^()]*, [^()]*\);$", body) and not body.startswith(("for", "//", "/*")):
                line = line.replace(", ", ",\n" + " " * (deep + 6), 1).replace("(", "( ", 1)
            out += line.split("\n")
        return out

    @staticmethod
    def comments(lines, rng):
        out = []
        for at, line in enumerate(lines):
            before = lines[at - 1].rstrip() if at else ""
            if at > 1 and before.endswith((";", "{")) and not before.lstrip().startswith("for") and rng.random() < 0.5:
                blank = line[: len(line) - len(line.lstrip())]
                out.append(blank + "/* Step %d of what is done here. */" % at)
            out.append(line)
        return out

    @staticmethod
    def locals(lines):
        names = []
        for line in lines[1:]:
            m = re.match(r"\s+(?:const |unsigned |static |struct )*\w+[\s*]+(\w+)\s*(?:=|;|\[|,)", line)
            if m and m.group(1) not in WORDS_C and not re.match(r"\s*(return|goto|else|case)\b", line):
                names.append(m.group(1))
        return names

    @staticmethod
    def rename(lines, names):
        out, before = [], ""
        for token in tokens_c("\n".join(lines)):
            if token in names and before not in (".", "->"):
                token = names[token]
            out.append(token)
            if not token.isspace():
                before = token
        return "".join(out).split("\n")

    @staticmethod
    def hoisted(lines, rng):
        places = [i for i, l in enumerate(lines) if re.match(r"\s+if \([^()]*(\([^()]*\)[^()]*)*\)\s*\{?$", l)]
        places = [i for i in places if lines[i - 1].rstrip().endswith((";", "{", "}"))]
        if not places:
            return None
        at = rng.choice(places)
        m = re.match(r"(\s+)if \((.*)\)(\s*\{?)$", lines[at])
        deep, condition, rest = m.groups()
        return lines[:at] + [f"{deep}int wanted_here = {condition};", f"{deep}if (wanted_here){rest}"] + lines[at + 1:]

    @staticmethod
    def wrapped(lines, name):
        """The body goes into a new function, which the old one calls."""
        head = []
        for line in lines:
            if line == "{":
                break
            head.append(line)
        text = " ".join(head)
        inside = text[text.index("(") + 1: text.rindex(")")]
        if "..." in inside or "(" in inside:
            return None
        names = [re.findall(r"\w+", p)[-1] for p in inside.split(",") if p.strip() not in ("", "void")]
        call = f"{name}_inner({', '.join(names)});"
        void = re.match(r"(static )?void [a-z]", text)
        inner = [re.sub(rf"\b{name}\b", f"{name}_inner", l) for l in lines]
        return inner + [""] + head + ["{", f"    {'' if void else 'return '}{call}", "}"]

    @staticmethod
    def faults(lines, rng):
        """Ways to put a fault in, as (first line, lines taken out, lines put in)."""
        ways = []
        for i in range(2, len(lines) - 1):
            line, after = lines[i], lines[i + 1] if i + 1 < len(lines) else ""
            body, deep = line.strip(), line[: len(line) - len(line.lstrip())]
            ended = lines[i - 1].rstrip().endswith((";", "{", "}"))
            if not ended or not deep:
                continue
            if re.match(r"if \(.*\)$", body) and re.match(r"\s+(return|break|continue|goto)\b.*;$", after):
                ways.append((i, 2, []))
            if re.match(r"if \(.*\) \{$", body):
                end = next((j for j in range(i + 1, min(i + 6, len(lines))) if lines[j] == deep + "}"), None)
                if end:
                    ways.append((i, end + 1 - i, []))
            if re.match(r"if \((.*&&.*|.*\|\|.*)\)( \{)?$", body) and body.count("(") == body.count(")"):
                left = re.split(r" (?:&&|\|\|) ", body[4: body.rindex(")")], maxsplit=1)[0]
                if left.count("(") == left.count(")"):
                    ways.append((i, 1, [f"{deep}if ({left})" + body[body.rindex(")") + 1:]]))
            if re.match(r"\w[\w.>\[\]-]* [+-]?= .*;$", body):
                ways.append((i, 1, []))
                ways.append((i, 0, [line.replace(" = ", " += ", 1) if " = " in line else line]))
            m = re.match(r"(\w+\(.*), [^,()]*\);$", body)
            if m:
                ways.append((i, 1, [f"{deep}{m.group(1)}, 0);"]))
        return ways


class Py:
    name, path, other = "python", "pkg/part.py", "pkg/other.py"
    functions = staticmethod(functions_py)

    @staticmethod
    def reformatted(lines, rng):
        """Calls over several lines with a comma behind, double quotes."""
        out = []
        for line in lines:
            body = line.strip()
            deep = line[: len(line) - len(line.lstrip())]
            m = re.match(r"((?:return |[\w.]+ = )?[\w.]+\()([^()'\"#]*, [^()'\"#]*)\)$", body)
            if m and not body.startswith(("def ", "class ")):
                arguments = [a.strip() for a in m.group(2).split(",") if a.strip()]
                out += [deep + m.group(1)] + [f"{deep}    {a}," for a in arguments] + [deep + ")"]
                continue
            if '"' not in line and "\\" not in line and line.count("'") % 2 == 0 and "''" not in line:
                line = line.replace("'", '"')
            out.append(line)
        return out

    @staticmethod
    def starts(lines):
        """Lines on which a statement begins, behind the first."""
        try:
            tree = ast.parse("\n".join(lines))
        except SyntaxError:
            return []
        nodes = (n for n in ast.walk(tree) if isinstance(n, ast.stmt))
        return sorted({n.lineno - 1 for n in nodes if n.lineno > 1 and not isinstance(n, ast.FunctionDef)})

    @staticmethod
    def comments(lines, rng):
        starts = set(Py.starts(lines))
        out = []
        for at, line in enumerate(lines):
            alone = not line.strip().startswith(("elif", "else", "except", "finally", "@", "def"))
            if at in starts and alone and rng.random() < 0.5:
                out.append(line[: len(line) - len(line.lstrip())] + "# Step %d of what is done here." % at)
            out.append(line)
        return out

    @staticmethod
    def locals(lines):
        tree = ast.parse("\n".join(lines))
        declared = {n for g in ast.walk(tree) if isinstance(g, (ast.Global, ast.Nonlocal)) for n in g.names}
        names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        return [n for n in dict.fromkeys(names) if n not in declared]

    @staticmethod
    def rename(lines, names):
        out = [list(l) for l in lines]
        tokens = tokens_py("\n".join(lines) + "\n")
        edits = []
        depth = 0
        for before, token, after in zip([None] + tokens, tokens, tokens[1:] + [None]):
            if token.string in "([{" and token.string:
                depth += 1
            if token.string in ")]}" and token.string:
                depth -= 1
            keyword = depth > 0 and after and after.string == "="
            if token.type == tokenize.NAME and token.string in names and before.string != "." and not keyword:
                edits.append((token.start, token.end, names[token.string]))
        for (row, left), (_, right), new in reversed(edits):
            out[row - 1][left:right] = new
        return ["".join(l) for l in out]

    @staticmethod
    def hoisted(lines, rng):
        places = [i for i in Py.starts(lines) if re.match(r"\s+if [^:#]*:$", lines[i])]
        if not places:
            return None
        at = rng.choice(places)
        deep, condition = re.match(r"(\s+)if (.*):$", lines[at]).groups()
        return lines[:at] + [f"{deep}wanted_here = {condition}", f"{deep}if wanted_here:"] + lines[at + 1:]

    @staticmethod
    def wrapped(lines, name):
        first = next(i for i, l in enumerate(lines) if l.startswith("def "))
        head = lines[first]
        node = ast.parse("\n".join(lines)).body[0].args
        if not head.endswith(":") or node.vararg or node.kwarg or node.kwonlyargs or node.posonlyargs:
            return None
        names = [a.arg for a in node.args]
        inner = [re.sub(rf"\b{name}\b", f"{name}_inner", l) for l in lines]
        return inner + ["", ""] + lines[: first + 1] + [f"    return {name}_inner({', '.join(names)})"]

    @staticmethod
    def faults(lines, rng):
        ways, starts = [], Py.starts(lines)
        for i in starts:
            line, after = lines[i], lines[i + 1] if i + 1 < len(lines) else ""
            body, deep = line.strip(), line[: len(line) - len(line.lstrip())]
            if not deep:
                continue
            nxt = lines[i + 2].strip() if i + 2 < len(lines) else ""
            lonely = not nxt.startswith(("elif", "else"))
            if re.match(r"if [^#]*:$", body) and re.match(r"\s+(return|raise|break|continue)\b[^(\[{]*$", after) and lonely:
                ways.append((i, 2, []))
            m = re.match(r"if (.*) (?:and|or) (.*):$", body)
            if m and m.group(1).count("(") == m.group(1).count(")") and m.group(1).count("[") == m.group(1).count("]"):
                ways.append((i, 1, [f"{deep}if {m.group(1)}:"]))
            if re.match(r"\w[\w.\[\]]* [+-]?= [^\\]*[\w)\]'\"]$", body) and body.count("(") == body.count(")") and body.count("[") == body.count("]"):
                if i + 1 in starts and not body.startswith(("return", "if")):
                    alone = lines[i - 1].rstrip().endswith(":") and len(after) - len(after.lstrip()) < len(deep)
                    if not alone:
                        ways.append((i, 1, []))
                    ways.append((i, 0, [line]))
            m = re.match(r"(.*\w\(.*), [^,()]*\)$", body)
            if m and m.group(1).count("(") == m.group(1).count(")") + 1 and not body.startswith(("def", "@", "class")):
                ways.append((i, 1, [f"{deep}{m.group(1)}, None)"]))
        return ways


def faulty(language, lines, rng, two):
    """The function before the fix, and, of two hunks, the function with one of the faults again."""
    ways = language.faults(lines, rng)
    rng.shuffle(ways)

    def put(chosen):
        out = list(lines)
        for at, n, new in sorted(chosen, reverse=True):
            out[at:at + n] = new
        return out

    def sound(text):
        if language is Py:
            try:
                ast.parse("\n".join(text))
            except SyntaxError:
                return False
        return text != lines
    for first in ways:
        if not two:
            if sound(put([first])):
                return put([first]), None
            continue
        for second in ways:
            apart = abs(first[0] - second[0]) >= 8 + max(first[1], second[1])
            if apart and sound(put([first, second])) and sound(put([first])):
                return put([first, second]), put([first])
    return None


def dressed(language, variant, lines, name, rng):
    """The function after the variant; nothing if it does not lend itself to it."""
    if variant == "reformatted":
        return language.reformatted(lines, rng)
    if variant == "comments":
        return language.comments(lines, rng)
    if variant == "renamed_locals":
        known = language.locals(lines)
        names = {n: f"{n}_now" if len(n) > 2 else f"the_{n}" for n in known[:3]}
        return language.rename(lines, names) if names else None
    if variant == "refactored":
        way = rng.choice(("hoisted", "wrapped", "called"))
        if way == "hoisted":
            return language.hoisted(lines, rng)
        if way == "wrapped":
            return language.wrapped(lines, name)
        return [re.sub(rf"\b{name}\b", f"{name}_anew", l) for l in lines]
    return lines


def cases(texts, language, per_cell, seed):
    """Cases of one language: `per_cell` for each category and variant. Yields dictionaries with `id`,
    `category`, `variant`, `trees` (a dictionary of files for each commit), `times`, `base` and `fix`
    (positions of commits)."""
    rng = random.Random(f"{seed} {language.name}")
    pool = []
    for text in texts:
        lines = text.split("\n")
        found = language.functions(text)
        for start, end, name in found:
            if 12 <= end - start <= 70:
                pool.append((lines, found, start, end, name))
    for category in CATEGORIES:
        for variant in VARIANTS:
            made = tries = 0
            while made < per_cell and tries < 4000:
                tries += 1
                case = one(rng, language, pool, category, variant)
                if case:
                    made += 1
                    case["id"] = f"{language.name}-{category}-{variant}-{made}"
                    yield case


def one(rng, language, pool, category, variant):
    lines, found, start, end, name = rng.choice(pool)
    fixed = lines[start:end]
    two = variant == "partly_reverted"
    sides = faulty(language, fixed, rng, two)
    if sides is None:
        return None
    buggy, partly = sides
    after = dressed(language, variant, fixed, name, rng)
    if after is None or (after == fixed and variant in ("reformatted", "comments", "renamed_locals", "refactored")):
        return None
    # Some neighbours in the file, and another file.
    others = [f for f in found if f[2] != name]
    rng.shuffle(others)
    near = sorted(others[:3])
    blocks = [lines[a:b] for a, b, _ in near]
    more = [lines[a:b] for a, b, _ in others[3:5]]
    at = rng.randrange(len(blocks) + 1)
    gap = [""] if language is C else ["", ""]

    def file(function, extra=()):
        parts = blocks[:at] + ([function] if function else []) + blocks[at:] + list(extra)
        return "\n".join("\n".join(p + gap) for p in parts)
    path, other = language.path, language.other
    base = {path: file(buggy), other: "\n".join("\n".join(p + gap) for p in more)}
    done = {**base, path: file(fixed)}
    extra = more[:1]
    later = {**done, path: file(fixed, extra)}
    varied = {**later, path: file(after, extra)}
    if variant == "moved_function":
        varied = {**later, path: file(None, extra), other: later[other] + "\n" + "\n".join(fixed + gap)}
    if variant == "renamed_file":
        varied = {other: later[other], path.replace("part", "piece").replace("src/", "lib/"): later[path]}
    # What takes the fix back, as the code is then.
    gone = {**later, path: file(partly if two else buggy, extra)}
    if variant in ("moved_function", "renamed_file"):
        gone = {k: v.replace("\n".join(fixed), "\n".join(buggy)) for k, v in varied.items()}
    day = lambda d: 1_600_000_000 + d * DAY
    removed = variant in ("reverted", "partly_reverted")
    times = {1: (300, 420, 900), 2: (710, 740, 900), 3: (300, 420, 600), 4: (100, 200, 300), 5: (800, 850, 900)}[category]
    states = [(20, {**base, other: base[other] + "\n"}), (50, base), (times[0], done), (times[0] + 5, later)]
    if not removed:
        states.append((times[1], varied))
    if category in (3, 4) or removed:
        states.append((times[2], gone))
    states.append((1000, {**states[-1][1], "notes.txt": "x\n"}))
    trees = [tree for _, tree in states]
    return {
        "category": category, "variant": variant, "language": language.name, "function": name,
        "trees": trees, "times": [day(d) for d, _ in states], "base": 1, "fix": 2,
    }


def rate(results):
    """Accuracy of the categories: without renaming and refactoring, and of all."""
    plain = [ok for case, ok in results if case["variant"] not in HARD]
    every = [ok for _, ok in results]
    return sum(plain) / len(plain), sum(every) / len(every)
