"""Cases in Portuguese and Spanish: told from English, and found by the words that they share with a new one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign import Example
from memalign.memory import Memory
from memalign.memory.language import language_of
from memalign.memory.retrieval import embedding_text, likeness, sequences, similar_cases
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.values import ValueType
from tests.support.learning import without
from tests.support.scripted import case

BOOL = ValueType.of(bool)
EMBEDDER = WordLlamaEmbedding()

# topic: (what was judged before, what is new); each a message and the reply to it
PORTUGUESE = {
    "delivery": (
        [
            ("Meu pedido devia ter chegado na segunda e até agora nada.", "O seu pacote está em trânsito."),
            ("O rastreamento não muda há cinco dias.", "A transportadora teve um atraso; a previsão é quinta-feira."),
            ("Consta como entregue, mas eu não recebi nada.", "Abrimos uma busca com os Correios."),
        ],
        [
            ("Cadê a minha encomenda? O prazo venceu ontem.", "Ela saiu para entrega hoje de manhã."),
            ("Faz uma semana que o pacote está parado em Curitiba.", "Falei com a transportadora e ele segue hoje."),
        ],
    ),
    "login": (
        [
            ("Não consigo entrar, diz que a senha está errada.", 'Clique em "Esqueci a senha" na tela de login.'),
            ("Minha conta foi bloqueada depois de três tentativas.", "Ela é desbloqueada sozinha em 30 minutos."),
            ("Troquei de celular e perdi o código de verificação.", "Confirme sua identidade por este link."),
        ],
        [
            ("Esqueci a senha e o link que recebi já venceu.", "Enviei um link novo, válido por uma hora."),
            ("O código por SMS nunca chega, não tenho como acessar.", "Posso enviar o código para o seu e-mail."),
        ],
    ),
    "cancel": (
        [
            ("Quero cancelar a assinatura antes da renovação.", "Vá em Conta > Plano > Cancelar."),
            ("Como encerro o plano família?", "Fico triste em ver você ir! Que tal 50% de desconto?"),
            ("Pedi o cancelamento mês passado e continuam cobrando.", "Peço desculpas. O plano está cancelado."),
        ],
        [
            ("Existe multa para cancelar o plano anual antes do fim?", "Sim, de 10% do valor restante."),
            ("Preciso parar a assinatura, não cabe no orçamento.", "Entendo. Cancelei agora, sem multa."),
        ],
    ),
}
SPANISH = {
    "delivery": (
        [
            ("Mi pedido tenía que llegar el lunes y sigo sin nada.", "Su paquete está en camino."),
            ("El seguimiento no cambia desde hace cinco días.", "El transportista va con retraso; llega el jueves."),
            ("Pone entregado, pero yo no recibí nada.", "Hemos abierto una reclamación con Correos."),
        ],
        [
            ("¿Dónde está mi paquete? El plazo terminó ayer.", "Salió a reparto esta mañana."),
            ("Hace una semana que el envío está parado.", "Hablé con el transportista y hoy continúa."),
        ],
    ),
    "login": (
        [
            ("No puedo entrar, dice que la contraseña es incorrecta.", 'Pulse "Olvidé mi contraseña".'),
            ("Se bloqueó mi cuenta después de tres intentos.", "Se desbloquea sola en 30 minutos."),
            ("Cambié de móvil y perdí el código de verificación.", "Confirme su identidad en este enlace."),
        ],
        [
            ("Olvidé la clave y el enlace que me mandaron caducó.", "Le envié uno nuevo que dura una hora."),
            ("El SMS con el código nunca llega y no tengo acceso.", "Puedo mandarle el código por correo."),
        ],
    ),
    "cancel": (
        [
            ("Quiero cancelar la suscripción antes de que se renueve.", "Vaya a Cuenta > Plan > Cancelar."),
            ("¿Cómo doy de baja el plan familiar?", "¡Qué pena que se vaya! ¿Y si le damos un 50%?"),
            ("Pedí la baja el mes pasado y me siguen cobrando.", "Perdone. El plan está cancelado."),
        ],
        [
            ("¿Hay penalización por cancelar el plan anual antes?", "Sí, el 10% de lo que queda."),
            ("Necesito dejar la suscripción, no me alcanza.", "Lo entiendo. La cancelé ahora, sin penalización."),
        ],
    ),
}
ENGLISH_CASES = [
    ("The app closes by itself when I open photos.", "Update to version 5.2, which fixes it."),
    ("My order should have come on Monday and still nothing.", "Your parcel is in transit."),
    ("I want to cancel my subscription before it renews.", "Go to Account > Plan > Cancel."),
    ("The site has refused my login since yesterday.", "Clear the browser's cookies and try again."),
    ("What is this fee on my account?", "It is the service fee in the contract."),
]
BOTH = pytest.mark.parametrize("topics", [PORTUGUESE, SPANISH], ids=["portuguese", "spanish"])

Topics = dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]]


async def memory_of(examples: list[Example], *, embedded_by: str = EMBEDDER.name) -> Memory:
    vectors = await EMBEDDER.embed([embedding_text(example) for example in examples])
    cases = [
        case(example.id, vector=list(vector), **example.content)
        for example, vector in zip(examples, vectors, strict=True)
    ]
    return Memory(cases=tuple(sorted(cases, key=lambda case: case.id)), embedding_model=embedded_by)


def known(topics: Topics) -> list[Example]:
    return [
        Example(id=f"{topic}-{n}", inputs=message, outputs=reply)
        for topic, (cases, _) in topics.items()
        for n, (message, reply) in enumerate(cases)
    ]


def new(topics: Topics) -> list[tuple[str, Example]]:
    return [
        (topic, Example(id="new", inputs=message, outputs=reply))
        for topic, (_, items) in topics.items()
        for message, reply in items
    ]


async def found(memory: Memory, item: Example, k: int = 3) -> list[str]:
    vector = (await EMBEDDER.embed([embedding_text(item)]))[0]
    return [hit.id for hit in similar_cases(memory, item, vector, BOOL, k)]


class TestRetrieval:
    @BOTH
    async def test_cases_of_one_topic_are_found_by_words(self, topics: Topics) -> None:
        async def right(memory: Memory) -> int:
            return sum([each.startswith(topic) for topic, item in new(topics) for each in await found(memory, item)])

        by_words = await right(await memory_of(known(topics)))
        by_embedding = await right(await memory_of(known(topics), embedded_by="another"))
        # Of 18 places, 5 would be right by chance.
        assert by_words >= 10
        assert by_words > by_embedding

    @pytest.mark.parametrize(
        ("topics", "embedded_by"),
        [
            ({"t": (ENGLISH_CASES, [(f"{one} ", two) for one, two in ENGLISH_CASES])}, EMBEDDER.name),
            (PORTUGUESE, "openai:text-embedding-3-small"),
            (SPANISH, "openai:text-embedding-3-small"),
        ],
        ids=["English", "by a provider's model", "by a provider's model, too"],
    )
    async def test_meaning_is_trusted_where_the_model_knows_the_language(
        self, topics: Topics, embedded_by: str
    ) -> None:
        memory = await memory_of(known(topics), embedded_by=embedded_by)
        for _, item in new(topics):
            vector = (await EMBEDDER.embed([embedding_text(item)]))[0]
            ranked = np.argsort(-(memory.matrix @ vector), kind="stable")
            assert await found(memory, item, 2) == [memory.cases[int(index)].id for index in ranked[:2]]

    @BOTH
    async def test_what_is_forgotten_leaves_no_trace(self, topics: Topics) -> None:
        examples = known(topics)
        memory = await memory_of(examples)
        never = await memory_of(examples[1:])
        for _, item in new(topics):
            await found(memory, item)  # whatever it keeps for later is kept before the forgetting
            assert await found(without(memory, examples[0].id), item, 9) == await found(never, item, 9)


class TestWords:
    @staticmethod
    def likeness(one: str, other: str) -> float:
        return likeness(sequences(one), sequences(other))

    def test_accents_and_case_count_nothing_and_endings_little(self) -> None:
        assert self.likeness("A Cobrança não é justa!", "a cobranca nao e justa") == pytest.approx(1)
        inflected = self.likeness("fui cobrado, devolvi o produto", "cobraram; a devolução dos produtos")
        assert inflected > 0.3
        assert self.likeness("fui cobrado, devolvi o produto", "o ônibus passa às oito") < 0.15
        assert self.likeness("cobrança \ud83d", "cobrança") > 0.9, "half a character is no error"
        for nothing in ("", " ", "?!", "\0", "…"):
            assert self.likeness(nothing, "o reembolso") == self.likeness(nothing, nothing) == 0

    def test_a_long_text_counts_with_head_and_tail(self) -> None:
        head, tail = "reembolso atrasado " * 60, "gerente educado " * 70
        whole = head[:1000] + " " + "bicicleta azul " * 90_000 + " " + tail[-1000:]
        assert self.likeness(whole, head[:1000] + " " + tail[-1000:]) > 0.95

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_likeness_is_a_cosine_and_goes_both_ways(self, one: str, other: str) -> None:
        assert 0 <= self.likeness(one, other) <= 1 + 1e-6
        assert self.likeness(one, other) == pytest.approx(self.likeness(other, one))


class TestLanguage:
    @BOTH
    def test_every_case_is_known_for_what_it_is(self, topics: Topics) -> None:
        expected = "Portuguese" if topics is PORTUGUESE else "Spanish"
        items = [*known(topics), *(item for _, item in new(topics))]
        assert {language_of(embedding_text(item)) for item in items} == {expected}

    @pytest.mark.parametrize(
        ("text", "language"),
        [
            ("A resposta é aceitável? Cliente: {{ inputs }} Resposta: {{ outputs }}", "Portuguese"),
            ("¿Es aceptable la respuesta? Cliente: {{ inputs }} Respuesta: {{ outputs }}", "Spanish"),
            ("Não funciona.", "Portuguese"),
            ("No funciona la aplicación.", "Spanish"),
            ("Na\u0303o ha\u0301 devoluc\u0327a\u0303o", "Portuguese"),  # letters of two characters
            *(("\n".join(pair), "English") for pair in ENGLISH_CASES),
            ("Is the reply acceptable? Customer: {{ inputs }} Reply: {{ outputs }}", "English"),
            ("El Niño warmed the coast of Peru, and the café in São Paulo was closed for a week.", "English"),
            ("The report quotes one line, «no hay nada que hacer», and then goes on about what it costs.", "English"),
            *((nothing, None) for nothing in ("", "42", "Paris", "{}", "解約したい")),
        ],
    )
    def test_it_is_told_where_something_tells_it(self, text: str, language: str | None) -> None:
        assert language_of(text) == language
