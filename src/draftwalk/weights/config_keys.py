"""Keys of config.json that nothing is computed from, so that all others can be refused.

Hugging Face's configurations carry much beside the model: how it was trained, how it was written,
what a pipeline does with it. A key belongs here only if no forward pass depends on it, whatever its
value; `NEUTRAL` has keys that one value switches off.
"""

from __future__ import annotations

from collections.abc import Mapping

_IDENTITY = {
    *("architectures", "model_type", "auto_map", "_name_or_path", "name_or_path"),
    *("transformers_version", "_commit_hash", "tokenizer_class", "processor_class"),
    *("is_llama_config", "transformers.js_config", "unsloth_version", "unsloth_fixed"),
}
_STORAGE = {
    *("dtype", "torch_dtype", "use_bfloat16", "torchscript", "tf_legacy_loss"),
    *("pretraining_tp", "tensor_parallel", "base_model_tp_plan", "base_model_pp_plan"),
}
# How a pass is computed, not what comes out of it.
_EXECUTION = {
    *("use_cache", "cache_implementation", "return_dict", "output_attentions"),
    *("output_hidden_states", "chunk_size_feed_forward", "gradient_checkpointing"),
    *("attn_implementation", "_attn_implementation", "_attn_implementation_autoset"),
    *("use_flash_attn", "_flash_attn_2_enabled"),
}
_TRAINING = {
    *("initializer_range", "initializer_factor", "attention_dropout", "hidden_dropout"),
    *("attention_probs_dropout_prob", "hidden_dropout_prob", "resid_pdrop", "embd_pdrop"),
    *("attn_pdrop", "dropout", "layerdrop", "resid_dropout", "embedding_dropout"),
}
# Which id is which is taken from the tokenizer and generation config; how text is generated, too.
_TOKENS = {
    *("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "unk_token_id"),
    *("cls_token_id", "decoder_start_token_id", "pad_token"),
}
_GENERATION = {
    *("do_sample", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty"),
    *("max_length", "min_length", "max_new_tokens", "max_sequence_length", "model_max_length"),
    *("num_beams", "num_beam_groups", "diversity_penalty", "length_penalty", "early_stopping"),
    *("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "suppress_tokens"),
    *("begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id", "output_scores"),
    *("num_return_sequences", "return_dict_in_generate", "remove_invalid_values"),
    *("exponential_decay_length_penalty", "generation_config", "prefix"),
}
_TASKS = {
    *("id2label", "label2id", "num_labels", "problem_type", "finetuning_task"),
    "task_specific_params",
}

HARMLESS = frozenset(_IDENTITY | _STORAGE | _EXECUTION | _TRAINING | _TOKENS | _GENERATION | _TASKS)

NEUTRAL: Mapping[str, object] = {
    "add_cross_attention": False,
    "attn_logit_softcapping": 0,
    "embedding_multiplier": 1,
    "final_logit_softcapping": 0,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "logit_scale": 1,
    "logits_scaling": 1,
    "mlp_bias": False,
    "num_experts": 0,
    "num_local_experts": 0,
    "num_nextn_predict_layers": 0,
    "pruned_heads": {},
    "qk_layernorm": False,
    "residual_multiplier": 1,
    "rope_interleaved": False,
    "tie_encoder_decoder": False,
    "use_bidirectional_attention": False,
    "use_mrope": False,
    "use_qk_norm": False,
    "use_sliding_window": False,
}

# In a table about rope: nothing is computed from them in the kinds of scaling there are. All planes
# of positions are equal in text, so it does not matter how many there are.
ROPE_HARMLESS = frozenset(
    {"original_max_position_embeddings", "mrope_section", "mrope_interleaved"}
)
