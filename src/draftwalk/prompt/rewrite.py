"""Puts the sandbox's checks into a parsed template, before it is compiled."""

from __future__ import annotations

from jinja2 import Environment, nodes
from jinja2.visitor import NodeTransformer

from draftwalk.errors import PromptError

# Tests that compare two values, which may be large.
_COMPARING = frozenset(
    {"in", "eq", "equalto", "==", "ne", "!=", "lt", "<", "lessthan", "le", "<=", "gt", ">"}
    | {"greaterthan", "ge", ">="}
)
# Tags that read other templates, or that the checks do not cover.
_REFUSED: dict[type[nodes.Node], str] = {
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from",
    nodes.Block: "block",
    nodes.ScopedEvalContextModifier: "autoescape",
}


def with_checks(environment: Environment, template: nodes.Template) -> nodes.Template:
    """The template with its checks."""
    for node in template.find_all(tuple(_REFUSED)):
        raise PromptError(
            f"the chat template uses {{% {_REFUSED[type(node)]} %}} in line {node.lineno}, "
            "which is not supported"
        )
    _Checks(environment).visit(template)
    return template


class _Checks(NodeTransformer):
    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802  # named after the node
        return self._with_step(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        return self._with_step(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        return self._with_step(node)

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802
        """Constant text is printed like a value, so that it counts where a loop repeats it."""
        return self._placed(nodes.Const(node.data), node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        return self._checked("counted", node)

    def visit_Test(self, node: nodes.Test) -> nodes.Node:  # noqa: N802
        return self._checked("counted", node, node.name in _COMPARING)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        return self._checked("counted", node, isinstance(node.arg, nodes.Slice))

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        return self._checked("weighed", node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        return self._checked("weighed", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        return self._checked("weighed", node, node.ctx == "load")

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._call("concatenated", node.nodes, node)

    def _with_step(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        step = self._placed(nodes.ExprStmt(self._call("counted", [], node)), node)
        node.body.insert(0, step)
        return node

    def _checked(self, check: str, node: nodes.Expr, wanted: bool = True) -> nodes.Node:
        self.generic_visit(node)
        return self._call(check, [node], node) if wanted else node

    def _call(self, check: str, args: list[nodes.Expr], at: nodes.Node) -> nodes.Expr:
        function = self._placed(nodes.EnvironmentAttribute(check), at)
        call = nodes.Call(function, args, [], None, None)
        self._placed(call, at)
        return call

    def _placed(self, node: nodes.Node, at: nodes.Node) -> nodes.Node:
        node.set_lineno(at.lineno)
        node.set_environment(self._environment)
        return node
